//! One request inside the scheduler: its ids, its place in the computation, its blocks.

use std::time::Duration;

use super::Turn;
use crate::blocks::{BlockHash, BlockIndex};
use crate::hash::fold;
use crate::model::{Context, Model};
use crate::request::{Extra, Finish, RequestId, Script, SimRequest, StopCause};
use crate::sampling::Sampler;
use crate::timing::StepLoad;

/// Starts the chain of block hashes of a namespace.
const NAMESPACE: u64 = 0x4e41_4d45;

#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: RequestId,
    pub(super) turn: Turn,
    /// Prompt, then output.
    tokens: Vec<u32>,
    prompt_tokens: u32,
    /// Context of the next id.
    context: Context,
    /// Tokens whose KV is computed.
    pub(super) computed: u32,
    /// Tokens before this position are prefill, as vLLM counts them: the prompt and, after a preemption, the output that was
    /// known, except for its last token.
    prefill_end: u32,
    pub(super) blocks: Vec<BlockIndex>,
    /// Hashes of all full blocks of `tokens`.
    hashes: Vec<BlockHash>,
    /// Leading blocks that are cached: found there, or committed when they were allocated.
    pub(super) committed: u32,
    extras: Vec<Extra>,
    block_tokens: u32,
    namespace: u64,
    pub(super) read_cache: bool,
    pub(super) remote_prefill: bool,
    max_tokens: u32,
    min_tokens: u32,
    max_sequence_tokens: u32,
    stop_ids: Vec<u32>,
    eos_id: Option<u32>,
    masked: Vec<u32>,
    sampler: Sampler,
    script: Option<Script>,
    tokens_per_step: u32,
    stall_after: Option<u32>,
    pace: Duration,
    not_before: Duration,
    /// Whether it was in the batch before.
    ever_ran: bool,
}

impl Sequence {
    pub(super) fn new(
        request: SimRequest,
        turn: Turn,
        model: &Model,
        block_tokens: u32,
        max_sequence_tokens: u32,
    ) -> Self {
        let eos_id = (!request.ignore_eos).then_some(model.config().eos_id);
        let masked = if request.min_tokens > 0 {
            request.stop_ids.iter().copied().chain(eos_id).collect()
        } else {
            Vec::new()
        };
        let namespace = request.salt.map_or(NAMESPACE, |salt| fold(NAMESPACE, salt));
        let mut sequence = Self {
            id: request.id,
            turn,
            prompt_tokens: request.prompt.len() as u32,
            tokens: Vec::new(),
            context: model.start(request.adapter),
            computed: 0,
            prefill_end: 0,
            blocks: Vec::new(),
            hashes: Vec::new(),
            committed: 0,
            extras: request.extras,
            block_tokens,
            namespace,
            read_cache: request.read_cache,
            remote_prefill: request.remote_prefill,
            max_tokens: request.max_tokens.max(1),
            min_tokens: request.min_tokens,
            max_sequence_tokens,
            stop_ids: request.stop_ids,
            eos_id,
            masked,
            sampler: Sampler::new(model, request.sampling),
            script: request.script,
            tokens_per_step: request.tokens_per_step.max(1),
            stall_after: request.stall_after,
            pace: request.pace,
            not_before: Duration::ZERO,
            ever_ran: false,
        };
        let output_room = sequence.max_tokens.min(max_sequence_tokens) as usize;
        sequence.tokens.reserve_exact(request.prompt.len() + output_room.min(1024));
        sequence.hashes.reserve_exact(request.prompt.len() / block_tokens as usize + 1);
        for id in request.prompt {
            sequence.push(id);
        }
        sequence
    }

    /// Appends an id, keeping the context and the hashes of full blocks.
    fn push(&mut self, id: u32) {
        let position = self.tokens.len() as u32;
        // Content enters where it starts, and each block that it overlaps names it.
        for extra in &self.extras {
            if extra.offset_tokens == position && extra.length_tokens > 0 {
                self.context = self.context.push_content(extra.key);
            }
        }
        self.tokens.push(id);
        self.context = self.context.push(id);
        if (position + 1).is_multiple_of(self.block_tokens) {
            let parent = self.hashes.last().map_or(self.namespace, |hash| hash.0);
            let first = position + 1 - self.block_tokens;
            let mut hash = fold(parent, self.context.word());
            for extra in &self.extras {
                let end = extra.offset_tokens.saturating_add(extra.length_tokens);
                if extra.offset_tokens <= position && end > first {
                    let offset = i64::from(extra.offset_tokens) - i64::from(first);
                    hash = fold(fold(hash, extra.key), offset as u64);
                }
            }
            self.hashes.push(BlockHash(hash));
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.tokens.len() as u32
    }

    pub(super) fn prompt_tokens(&self) -> u32 {
        self.prompt_tokens
    }

    pub(super) fn output(&self) -> &[u32] {
        &self.tokens[self.prompt_tokens as usize..]
    }

    pub(super) fn hashes(&self) -> &[BlockHash] {
        &self.hashes
    }

    /// The ids of a run of full blocks.
    pub(super) fn block_ids(&self, first: u32, count: u32) -> &[u32] {
        let at = |block: u32| (block * self.block_tokens) as usize;
        &self.tokens[at(first)..at(first + count)]
    }

    /// Puts it into the batch with blocks that were found and so many tokens that need not be computed; true the first
    /// time.
    pub(super) fn start(&mut self, found: Vec<BlockIndex>, computed: u32) -> bool {
        self.committed = found.len() as u32;
        self.blocks = found;
        self.computed = computed;
        self.prefill_end = self.prompt_tokens.max(self.len() - 1);
        !std::mem::replace(&mut self.ever_ran, true)
    }

    /// Tokens that are not computed yet. Never 0 while it runs.
    pub(super) fn pending(&self) -> u32 {
        self.len() - self.computed
    }

    /// Adds what computing its next `tokens` tokens takes.
    pub(super) fn add_load(&self, tokens: u32, load: &mut StepLoad) {
        let prefill = self.prefill_end.saturating_sub(self.computed).min(tokens);
        if prefill > 0 {
            load.prefill(self.computed, prefill);
        }
        if prefill < tokens {
            load.decode(self.computed + tokens - 1);
        }
    }

    /// When it may be scheduled next; none if it is stalled.
    pub(super) fn due(&self) -> Option<Duration> {
        (!self.stalled()).then_some(self.not_before)
    }

    fn stalled(&self) -> bool {
        self.stall_after.is_some_and(|limit| self.output().len() as u32 >= limit)
    }

    /// Forgets blocks and computation; the caller releases what it gets.
    pub(super) fn take_blocks(&mut self) -> Vec<BlockIndex> {
        self.computed = 0;
        self.committed = 0;
        std::mem::take(&mut self.blocks)
    }

    /// Generates the tokens of one step, handing each one to `report`, and returns the end if there is one.
    pub(super) fn generate(
        &mut self,
        now: Duration,
        model: &Model,
        mut report: impl FnMut(Context, u32),
    ) -> Option<Finish> {
        self.not_before = now + self.pace;
        for _ in 0..self.tokens_per_step {
            if let Some(finish) = self.script_end() {
                return Some(finish);
            }
            if self.stalled() {
                return None;
            }
            let (context, id) = (self.context, self.next_id(model));
            self.push(id);
            report(context, id);
            if let Some(finish) = self.finish_after(id) {
                return Some(finish);
            }
        }
        None
    }

    fn next_id(&self, model: &Model) -> u32 {
        let output = self.output();
        if let Some(id) = self.script.as_ref().and_then(|script| script.ids.get(output.len())) {
            return *id;
        }
        let masked = if (output.len() as u32) < self.min_tokens { self.masked.as_slice() } else { &[] };
        self.sampler.next(model, self.context, output, masked)
    }

    /// The end that a script of no ids has before any token.
    fn script_end(&self) -> Option<Finish> {
        let script = self.script.as_ref()?;
        if self.output().len() >= script.ids.len() { script.then } else { None }
    }

    fn finish_after(&self, id: u32) -> Option<Finish> {
        let count = self.output().len() as u32;
        if count >= self.min_tokens {
            if self.eos_id == Some(id) {
                return Some(Finish::Stop(StopCause::Eos));
            }
            if self.stop_ids.contains(&id) {
                return Some(Finish::Stop(StopCause::Id(id)));
            }
        }
        if let Some(finish) = self.script_end() {
            return Some(finish);
        }
        (count >= self.max_tokens || self.len() >= self.max_sequence_tokens).then_some(Finish::Length)
    }
}
