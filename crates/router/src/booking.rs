//! One request's place on the board, from the choice to its end. Dropping it is the only way to give it back.

use std::sync::Arc;

use tito_fleet::Target;
use tito_policy::{Choice, Ticket};
use tito_types::{Delta, Placement, WorkerId};

use crate::route::Shared;

/// Output tokens after which the ledger hears of them: seldom enough that no lock is on the path of a token.
const GROW_TOKENS: u32 = 64;

/// A place on the board.
pub(crate) struct Booking {
    shared: Arc<Shared>,
    ticket: Ticket,
    target: Arc<Target>,
    started: bool,
    output_tokens: u32,
    /// Prompt tokens the engine should report as cached; absent where we cannot know.
    expected: Option<u32>,
    /// How often the target had been emptied by then.
    emptied: u64,
    pub(crate) placement: Placement,
}

impl Booking {
    pub(crate) fn new(
        shared: Arc<Shared>,
        choice: &Choice,
        target: Arc<Target>,
        expected: Option<u32>,
        placement: Placement,
    ) -> Self {
        let (ticket, emptied) = (choice.ticket, target.emptied());
        Self { shared, ticket, target, started: false, output_tokens: 0, expected, emptied, placement }
    }

    /// The worker and the rank it is for.
    pub(crate) fn target(&self) -> (WorkerId, u32) {
        (self.target.worker.clone(), self.target.rank)
    }

    /// Books what a delta says.
    pub(crate) fn delta(&mut self, delta: &Delta) {
        if !self.started && (!delta.token_ids.is_empty() || delta.finish.is_some()) {
            self.started = true;
            self.shared.prefill_done(self.ticket);
        }
        self.output_tokens = self.output_tokens.saturating_add(delta.token_ids.len() as u32);
        if self.output_tokens >= GROW_TOKENS {
            self.shared.grow(self.ticket, self.output_tokens);
            self.output_tokens = 0;
        }
        let reported =
            delta.finish.as_ref().filter(|_| delta.index == 0).and_then(|finish| finish.cached_tokens);
        if let (Some(reported), Some(expected)) = (reported, self.expected)
            && self.target.emptied() == self.emptied
        {
            self.shared.metrics.compared(&self.target.worker, expected, reported);
        }
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        self.shared.end(self.ticket);
    }
}
