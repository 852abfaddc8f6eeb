//! The words that an engine owes about a rank's blocks being gone.

use std::time::Duration;

use tokio::time::Instant;

/// How long an engine that goes on storing may leave out a word that it owes. vLLM says it before it stores anything.
const WORD_WITHIN: Duration = Duration::from_secs(30);

/// An engine that dropped its blocks at our command says so with its next step only. Until then, what it says is older.
/// vLLM 0.32 says it once for each command, in order. The word for a reset that others commanded cannot be told from ours:
/// one that comes in between ends the wait too early, and the next word puts that right.
#[derive(Debug, Default)]
pub(super) struct Clears {
    owed: u64,
    /// When it first stored something while it owed a word.
    storing_since: Option<Instant>,
}

impl Clears {
    /// Whether a word is owed.
    pub(super) fn owing(&self) -> bool {
        self.owed > 0
    }

    /// It stores something while it owes a word. True when it has done so for too long: the word will not come.
    pub(super) fn overdue(&mut self, now: Instant) -> bool {
        let since = *self.storing_since.get_or_insert(now);
        now.duration_since(since) > WORD_WITHIN
    }

    /// It dropped its blocks at our command, or may have.
    pub(super) fn owe(&mut self) {
        self.owed += 1;
    }

    /// It says that its blocks are gone. True when it owed that.
    pub(super) fn tell(&mut self) -> bool {
        self.storing_since = None;
        let owed = self.owed.checked_sub(1);
        self.owed = owed.unwrap_or(0);
        owed.is_some()
    }

    /// None is waited for any more.
    pub(super) fn forgive(&mut self) {
        self.owed = 0;
        self.storing_since = None;
    }
}
