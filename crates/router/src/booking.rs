//! One request's place on the board, from the choice to its end. Dropping it is the only way to give it back.

use std::sync::Arc;

use tito_fleet::Target;
use tito_kv_index::cached_tokens_max;
use tito_policy::{Choice, Ticket};
use tito_types::{Delta, GenerateRequest, Placement, WorkerId};

use crate::route::{Shared, Wish};

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
    pub(crate) expected: Option<u32>,
    /// How often the target had been emptied by then.
    emptied: u64,
    pub(crate) placement: Placement,
}

impl Booking {
    pub(crate) fn new(
        shared: Arc<Shared>,
        choice: &Choice,
        target: Arc<Target>,
        placement: Placement,
    ) -> Self {
        let (ticket, emptied) = (choice.ticket, target.emptied());
        let (started, output_tokens, expected) = (false, 0, None);
        Self { shared, ticket, target, started, output_tokens, expected, emptied, placement }
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

/// The cached tokens that an engine should report whose whole block table we know, and all that decides about hits in it.
pub(crate) fn expected(
    wish: &Wish,
    choice: &Choice,
    target: &Target,
    request: &GenerateRequest,
) -> Option<u32> {
    // Several continuations find what the first of them has just computed.
    if !target.complete() || target.not_compared() || wish.held.token_only || request.n > 1 {
        return None;
    }
    // vLLM 0.32 does not read its cache for these.
    if request.kv.bypass_prefix_cache || request.outputs.prompt_logprobs.is_some() {
        return Some(0);
    }
    let block_tokens = target.block_tokens();
    let blocks = choice.overlap_tokens / block_tokens.max(1);
    let cached = cached_tokens_max(request.prompt.len(), block_tokens as usize, blocks as usize);
    u32::try_from(cached).ok()
}
