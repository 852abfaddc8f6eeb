//! What a step reports. One value is reused for all steps, so that a token costs no allocation.

use std::ops::Range;
use std::time::Duration;

use crate::blocks::{BlockHash, KvEvent};
use crate::model::Context;
use crate::request::{Finish, RequestId};
use crate::timing::StepLoad;

/// A generated token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepToken {
    /// The id.
    pub id: u32,
    /// What came before it: the key to its log-prob, rank and candidates.
    pub context: Context,
}

/// What one request got in a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOutput {
    /// Whose output it is.
    pub request: RequestId,
    /// Its new tokens, as a range of [`Step::tokens`].
    pub tokens: Range<usize>,
    /// Its end, if this is the last output.
    pub finish: Option<Finish>,
}

/// A request that entered the batch for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// The request.
    pub request: RequestId,
    /// Prompt tokens that the prefix cache (or a remote prefill) supplied.
    pub cached_tokens: u32,
}

/// Everything one step did.
#[derive(Debug, Default)]
pub struct Step {
    /// Requests that entered the batch for the first time.
    pub started: Vec<Started>,
    /// New tokens of all requests.
    pub tokens: Vec<StepToken>,
    /// What each request got.
    pub outputs: Vec<StepOutput>,
    /// Changes of the prefix cache, in order. Empty unless the configuration asks for them.
    pub events: Vec<KvEvent>,
    /// How long the step takes.
    pub length: Duration,
    /// What was computed.
    pub load: StepLoad,
}

impl Step {
    /// The tokens of an output.
    pub fn tokens_of(&self, output: &StepOutput) -> &[StepToken] {
        &self.tokens[output.tokens.clone()]
    }

    pub(super) fn clear(&mut self) {
        self.started.clear();
        self.tokens.clear();
        self.outputs.clear();
        self.events.clear();
        self.length = Duration::ZERO;
        self.load = StepLoad::default();
    }

    /// Reports what was evicted, in order.
    pub(super) fn removed(&mut self, blocks: Vec<BlockHash>) {
        if !blocks.is_empty() {
            self.events.push(KvEvent::Removed(blocks));
        }
    }

    /// Reports an end without tokens.
    pub(super) fn end(&mut self, request: RequestId, finish: Finish) {
        let end = self.tokens.len();
        self.outputs.push(StepOutput { request, tokens: end..end, finish: Some(finish) });
    }
}
