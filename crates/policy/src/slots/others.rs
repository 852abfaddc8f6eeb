//! What an engine has to do beyond what is in flight here, by its own reports.

use super::Amounts;

/// What a slot's engine has to do, whoever sent it, by one report of the engine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// Continuations it runs or has in its queue.
    pub continuations: u64,
    /// Tokens its running requests hold.
    pub tokens: u64,
}

/// What a slot's engine has to do beyond what was sent to it from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Others {
    /// Continuations that it runs or has in its queue.
    pub continuations: u64,
    /// Tokens held.
    pub tokens: u64,
}

/// What of the reports counts. They are late and do not match the ledger at any one moment: what was sent or has ended
/// in between looks like somebody else's for one report, so that only what two in a row have in common is believed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Excess {
    last: Option<Others>,
    /// Absent while nothing is reported.
    pub(crate) counted: Option<Others>,
}

impl Excess {
    /// Books the next report, or that there is none any more.
    pub(super) fn book(&mut self, reported: Option<Reported>, ours: Amounts) {
        let excess = reported.map(|Reported { continuations, tokens }| Others {
            continuations: continuations.saturating_sub(ours.continuations),
            tokens: tokens.saturating_sub(ours.held),
        });
        let last = self.last.unwrap_or_default();
        self.counted = excess.map(|now| Others {
            continuations: now.continuations.min(last.continuations),
            tokens: now.tokens.min(last.tokens),
        });
        self.last = excess;
    }
}
