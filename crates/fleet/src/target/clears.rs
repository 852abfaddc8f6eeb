//! The words of an engine about a rank's blocks being gone, and those that it owes.

/// How often it said so, and how often it still has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Clears {
    told: u64,
    /// It dropped its blocks at our command, and says so with its next step only.
    owed: u64,
}

impl Clears {
    /// Whether a word is owed: until it has come, what the engine says is older than the command.
    pub(super) fn owing(self) -> bool {
        self.owed > 0
    }

    /// It said so. False when that is the word for a command, which was booked when it was given.
    pub(super) fn tell(&mut self) -> bool {
        self.told += 1;
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

    /// A word may be among what was missed: none is waited for.
    pub(super) fn forgive(&mut self) {
        self.owed = 0;
    }
}
