//! Who computes how many tokens in a step, and where their blocks come from.

use std::time::Duration;

use super::{SchedulingPolicy, Sequence, SimConfig, Simulation, Step};
use crate::blocks::{BlockIndex, BlockPool, KvEvent, StoredBlocks};
use crate::simulation::step::{Started, StepOutput, StepToken};

/// Tokens to compute for one running sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// Position in `running`.
    index: usize,
    tokens: u32,
}

impl Simulation {
    /// Chooses the work of a step: running sequences first, then new ones, within the token budget.
    pub(super) fn schedule(&mut self, now: Duration, step: &mut Step) -> Vec<Work> {
        let mut budget = self.config.max_step_tokens;
        let mut work = Vec::with_capacity(self.running.len() + 1);
        let preempted = self.schedule_running(now, &mut budget, &mut work, step);
        if !preempted {
            self.schedule_waiting(&mut budget, &mut work, step);
        }
        work
    }

    /// True if a sequence lost its blocks, in which case nobody new is admitted.
    fn schedule_running(
        &mut self,
        now: Duration,
        budget: &mut u32,
        work: &mut Vec<Work>,
        step: &mut Step,
    ) -> bool {
        let mut preempted = false;
        let mut index = 0;
        while index < self.running.len() && *budget > 0 {
            let sequence = &self.running[index];
            let due = sequence.due().is_some_and(|due| due <= now);
            let tokens = sequence.pending().min(*budget);
            if !due || tokens == 0 {
                index += 1;
                continue;
            }
            let held = sequence.blocks.len() as u32;
            let wanted =
                blocks_for(sequence.computed + tokens, self.config.block_tokens).saturating_sub(held);
            while wanted > self.pool.free() {
                let victim = self.victim();
                self.preempt(victim);
                preempted = true;
                *budget += forget(work, victim);
                if victim == index {
                    // As in vLLM, those that come after it are not scheduled in this step.
                    return true;
                }
                index -= usize::from(victim < index);
            }
            let sequence = &mut self.running[index];
            allocate(&mut self.pool, sequence, wanted);
            commit(&mut self.pool, &self.config, sequence, sequence.computed + tokens, step);
            self.starved = false;
            work.push(Work { index, tokens });
            *budget -= tokens;
            index += 1;
        }
        preempted
    }

    /// The running sequence that gives way when blocks run out: by arrival the last one to start, by priority the least
    /// urgent one and among equals the last to come, wherever it is in the batch.
    fn victim(&self) -> usize {
        let last = self.running.len() - 1;
        match self.config.policy {
            SchedulingPolicy::Fcfs => last,
            SchedulingPolicy::Priority => {
                (0..=last).max_by_key(|&index| self.running[index].turn).expect("a sequence is running")
            }
        }
    }

    /// Takes the blocks of a running sequence; it waits and is computed again.
    pub(super) fn preempt(&mut self, index: usize) {
        let mut sequence = self.running.remove(index);
        self.release(&mut sequence);
        self.stats.preemptions += 1;
        self.waiting.insert(sequence.turn, sequence);
    }

    fn schedule_waiting(&mut self, budget: &mut u32, work: &mut Vec<Work>, step: &mut Step) {
        // A bound of one pass: each round admits a sequence or ends the loop.
        while *budget > 0 && self.pause.is_none() && (self.running.len() as u32) < self.config.max_running {
            let Some((turn, mut sequence)) = self.waiting.pop_first() else { break };
            let Some(tokens) = self.admit(&mut sequence, *budget, step) else {
                self.waiting.insert(turn, sequence);
                self.starved = true;
                break;
            };
            *budget -= tokens;
            work.push(Work { index: self.running.len(), tokens });
            self.running.push(sequence);
        }
    }

    /// Gives a waiting sequence its cached prefix and the blocks of its first chunk, or nothing at all. As in vLLM, all of
    /// what is known of it must fit and not only the first chunk (`scheduler_reserve_full_isl`); nothing is kept free for
    /// the later chunks.
    fn admit(&mut self, sequence: &mut Sequence, budget: u32, step: &mut Step) -> Option<u32> {
        let block_tokens = self.config.block_tokens;
        let hits = self.cached_prefix(sequence);
        let found = hits.len() as u32 * block_tokens;
        let known = if sequence.remote_prefill { sequence.len() - 1 } else { found };
        let unreferenced = hits.iter().filter(|&&index| !self.pool.is_referenced(index)).count() as u32;
        let whole = blocks_for(sequence.len(), block_tokens) - hits.len() as u32;
        if whole + unreferenced > self.pool.free() {
            return None;
        }
        for &index in &hits {
            self.pool.share(index);
        }
        let tokens = (sequence.len() - known).min(budget);
        let wanted = blocks_for(known + tokens, block_tokens) - hits.len() as u32;
        if sequence.start(hits, known) {
            let prompt_tokens = sequence.prompt_tokens();
            let cached_tokens = if sequence.remote_prefill { prompt_tokens } else { known };
            step.started.push(Started { request: sequence.id, cached_tokens });
            self.stats.prompt_tokens += u64::from(prompt_tokens);
            if sequence.read_cache {
                self.stats.cache_queries_tokens += u64::from(prompt_tokens);
                self.stats.cache_hits_tokens += u64::from(found);
            }
        }
        allocate(&mut self.pool, sequence, wanted);
        commit(&mut self.pool, &self.config, sequence, known + tokens, step);
        Some(tokens)
    }

    /// The cached blocks at the start of a sequence. At least its last token is left to compute.
    fn cached_prefix(&self, sequence: &Sequence) -> Vec<BlockIndex> {
        if !sequence.read_cache || sequence.remote_prefill {
            return Vec::new();
        }
        let most = (sequence.len() - 1) / self.config.block_tokens;
        sequence.hashes()[..most as usize].iter().map_while(|&hash| self.pool.find(hash)).collect()
    }

    /// Computes the scheduled tokens, samples where a sequence is complete, and removes what has ended.
    pub(super) fn advance(&mut self, now: Duration, work: Vec<Work>, step: &mut Step) {
        if work.is_empty() {
            return;
        }
        self.stats.steps += 1;
        let mut ended = Vec::new();
        for Work { index, tokens } in work {
            let sequence = &mut self.running[index];
            sequence.add_load(tokens, &mut step.load);
            sequence.computed += tokens;
            if sequence.pending() == 0 {
                let first = step.tokens.len();
                let tokens = &mut step.tokens;
                let finish =
                    sequence.generate(now, &self.model, |context, id| tokens.push(StepToken { id, context }));
                let range = first..step.tokens.len();
                self.stats.output_tokens += range.len() as u64;
                if finish.is_some() || !range.is_empty() {
                    step.outputs.push(StepOutput { request: sequence.id, tokens: range, finish });
                }
                if finish.is_some() {
                    ended.push(index);
                }
            }
        }
        // As in vLLM, the first in the batch gives its blocks back first, so that they are taken again first.
        for (removed, index) in ended.into_iter().enumerate() {
            let mut sequence = self.running.remove(index - removed);
            self.turns.remove(&sequence.id);
            self.release(&mut sequence);
        }
        step.length = self.config.timing.step_length(&step.load);
    }
}

/// Takes the work of a sequence that lost its place out of the step's, and returns its tokens.
fn forget(work: &mut Vec<Work>, victim: usize) -> u32 {
    let planned = work.iter().position(|entry| entry.index == victim);
    let tokens = planned.map_or(0, |at| work.remove(at).tokens);
    for entry in work.iter_mut().filter(|entry| entry.index > victim) {
        entry.index -= 1;
    }
    tokens
}

/// Gives a sequence so many blocks more. The caller counted the free ones.
fn allocate(pool: &mut BlockPool, sequence: &mut Sequence, blocks: u32) {
    for _ in 0..blocks {
        sequence.blocks.push(pool.allocate().expect("enough free blocks were counted"));
    }
}

/// Caches the blocks that a sequence fills with its first `tokens` tokens and tells of them, after what their allocation
/// evicted. As in vLLM 0.32 (`KVCacheManager.allocate_slots`) that is when they are allocated and not when they are
/// computed: the next request of the same step finds them. Content that is cached already is cached again.
fn commit(pool: &mut BlockPool, config: &SimConfig, sequence: &mut Sequence, tokens: u32, step: &mut Step) {
    let (first, full) = (sequence.committed, tokens / config.block_tokens);
    if full <= first {
        return;
    }
    let blocks = first as usize..full as usize;
    for (&block, &hash) in sequence.blocks[blocks.clone()].iter().zip(&sequence.hashes()[blocks.clone()]) {
        pool.cache(block, hash);
    }
    sequence.committed = full;
    if config.kv_events {
        step.removed(pool.take_removed());
        step.events.push(KvEvent::Stored(StoredBlocks {
            request: sequence.id,
            parent: first.checked_sub(1).map(|parent| sequence.hashes()[parent as usize]),
            blocks: sequence.hashes()[blocks].to_vec(),
            offset_tokens: first * config.block_tokens,
            token_ids: sequence.block_ids(first, full - first).to_vec(),
        }));
    }
}

fn blocks_for(tokens: u32, block_tokens: u32) -> u32 {
    tokens.div_ceil(block_tokens)
}
