//! Who computes how many tokens in a step, and where their blocks come from.

use std::time::Duration;

use super::{Sequence, Simulation, Step};
use crate::blocks::{BlockIndex, KvEvent, StoredBlocks};
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
        let preempted = self.schedule_running(now, &mut budget, &mut work);
        if !preempted {
            self.schedule_waiting(&mut budget, &mut work, step);
        }
        work
    }

    /// True if a sequence lost its blocks, in which case nobody new is admitted.
    fn schedule_running(&mut self, now: Duration, budget: &mut u32, work: &mut Vec<Work>) -> bool {
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
            let wanted = blocks_for(sequence.computed + tokens, self.config.block_tokens);
            while wanted > self.running[index].blocks.len() as u32 {
                if let Some(block) = self.pool.allocate() {
                    self.running[index].blocks.push(block);
                    continue;
                }
                preempted = true;
                self.preempt_last();
                if index == self.running.len() {
                    return true;
                }
            }
            work.push(Work { index, tokens });
            *budget -= tokens;
            index += 1;
        }
        preempted
    }

    /// Takes the blocks of the running sequence whose turn is last; it waits and is computed again.
    pub(super) fn preempt_last(&mut self) {
        let mut sequence = self.running.pop().expect("a sequence that needs a block is running");
        self.release(&mut sequence);
        self.stats.preemptions += 1;
        self.waiting.insert(sequence.turn, sequence);
    }

    fn schedule_waiting(&mut self, budget: &mut u32, work: &mut Vec<Work>, step: &mut Step) {
        // A bound of one pass: each round admits a sequence or ends the loop.
        while *budget > 0 && (self.running.len() as u32) < self.config.max_running {
            let Some(turn) = self.next_turn() else { break };
            let mut sequence = self.waiting.remove(&turn).expect("the turn was found in the queue");
            let Some(tokens) = self.admit(&mut sequence, *budget) else {
                self.waiting.insert(turn, sequence);
                self.starved = true;
                break;
            };
            if sequence.start() {
                let cached_tokens =
                    if sequence.remote_prefill { sequence.prompt_tokens() } else { sequence.computed };
                self.stats.prompt_tokens += u64::from(sequence.prompt_tokens());
                self.stats.cache_queries_tokens += u64::from(sequence.prompt_tokens());
                self.stats.cache_hits_tokens += u64::from(cached_tokens);
                step.started.push(Started { request: sequence.id, cached_tokens });
            }
            *budget -= tokens;
            let index = self.running.partition_point(|other| other.turn < turn);
            for entry in work.iter_mut().filter(|entry| entry.index >= index) {
                entry.index += 1;
            }
            self.running.insert(index, sequence);
            work.push(Work { index, tokens });
        }
    }

    fn next_turn(&self) -> Option<super::Turn> {
        self.waiting.iter().find(|(_, sequence)| self.may_start(sequence)).map(|(turn, _)| *turn)
    }

    /// Gives a waiting sequence its cached prefix and the blocks of its first chunk, or nothing at all.
    fn admit(&mut self, sequence: &mut Sequence, budget: u32) -> Option<u32> {
        let block_tokens = self.config.block_tokens;
        let hits = self.cached_prefix(sequence);
        let known =
            if sequence.remote_prefill { sequence.len() - 1 } else { hits.len() as u32 * block_tokens };
        let tokens = (sequence.len() - known).min(budget);
        let wanted = blocks_for(known + tokens, block_tokens) - hits.len() as u32;
        let unreferenced = hits.iter().filter(|&&index| !self.pool.is_referenced(index)).count() as u32;
        if wanted > self.pool.free() - unreferenced {
            return None;
        }
        for &index in &hits {
            self.pool.share(index);
        }
        sequence.registered = hits.len() as u32;
        sequence.blocks = hits;
        for _ in 0..wanted {
            let block = self.pool.allocate().expect("enough free blocks were counted");
            sequence.blocks.push(block);
        }
        sequence.computed = known;
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
    pub(super) fn advance(&mut self, now: Duration, mut work: Vec<Work>, step: &mut Step) {
        if work.is_empty() {
            return;
        }
        self.stats.steps += 1;
        work.sort_unstable_by_key(|entry| entry.index);
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
            self.register_blocks(index, step);
        }
        for index in ended.into_iter().rev() {
            let mut sequence = self.running.remove(index);
            self.turns.remove(&sequence.id);
            self.release(&mut sequence);
        }
        step.length = self.config.timing.step_length(&step.load);
    }

    /// Offers the blocks that were filled in this step to the prefix cache. One with the content of a cached
    /// block is given back for that one, so that whatever a sequence holds stays cached while it runs.
    fn register_blocks(&mut self, index: usize, step: &mut Step) {
        let sequence = &mut self.running[index];
        let full = sequence.computed / self.config.block_tokens;
        let first = sequence.registered;
        if full <= first {
            return;
        }
        sequence.registered = full;
        let mut run: Option<StoredBlocks> = None;
        for block in first..full {
            let hash = sequence.hashes()[block as usize];
            let own = sequence.blocks[block as usize];
            let stored = self.pool.register(own, hash);
            if let Err(other) = stored {
                self.pool.share(other);
                self.pool.release(own);
                sequence.blocks[block as usize] = other;
                self.starved = false;
            }
            if !self.config.kv_events {
                continue;
            }
            if stored.is_ok() {
                let run = run.get_or_insert_with(|| StoredBlocks {
                    request: sequence.id,
                    parent: block.checked_sub(1).map(|parent| sequence.hashes()[parent as usize]),
                    blocks: Vec::new(),
                    offset_tokens: block * self.config.block_tokens,
                    token_ids: Vec::new(),
                });
                run.blocks.push(hash);
                run.token_ids.extend_from_slice(sequence.block_ids(block, 1));
            } else {
                step.events.extend(run.take().map(KvEvent::Stored));
            }
        }
        step.events.extend(run.map(KvEvent::Stored));
    }
}

fn blocks_for(tokens: u32, block_tokens: u32) -> u32 {
    tokens.div_ceil(block_tokens)
}
