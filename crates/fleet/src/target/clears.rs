//! The words of an engine about a rank's blocks being gone, and those that it owes.

use std::time::Duration;

use tokio::time::Instant;

/// How long an engine that goes on storing may leave out a word that it owes. vLLM says it before it stores anything.
const WORD_WITHIN: Duration = Duration::from_secs(30);

/// How often it said so, and how often it still has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Clears {
    told: u64,
    /// It dropped its blocks at our command, and says so with its next step only.
    owed: u64,
    /// When it first stored something while it owed a word.
    storing_since: Option<Instant>,
}

impl Clears {
    /// Whether a word is owed: until it has come, what the engine says is older than the command.
    pub(super) fn owing(self) -> bool {
        self.owed > 0
    }

    /// It stores something while it owes a word. True when it has done so for too long: the word will not come.
    pub(super) fn overdue(&mut self, now: Instant) -> bool {
        let since = *self.storing_since.get_or_insert(now);
        now.duration_since(since) > WORD_WITHIN
    }

    /// It said so. False when that is the word for a command, which was booked when it was given.
    pub(super) fn tell(&mut self) -> bool {
        self.told += 1;
        self.storing_since = None;
        let owed = self.owed.checked_sub(1);
        self.owed = owed.unwrap_or(0);
        owed.is_none()
    }

    /// It dropped its blocks at a command that was given after `before`. False when its word for that has come already.
    pub(super) fn command(&mut self, before: Self) -> bool {
        // Words for earlier commands come first.
        let owes = self.told - before.told <= before.owed;
        self.owed += u64::from(owes);
        owes
    }

    /// None is waited for any more.
    pub(super) fn forgive(&mut self) {
        self.owed = 0;
        self.storing_since = None;
    }
}
