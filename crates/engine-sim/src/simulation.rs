//! The scheduler: continuous batching over a block pool, one step at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::blocks::{BlockPool, KvEvent};
use crate::model::Model;
use crate::request::{Finish, RequestId, SimRequest};
use crate::timing::Timing;

mod schedule;
mod sequence;
mod step;
#[cfg(test)]
mod tests;

use sequence::Sequence;
pub use step::{Started, Step, StepOutput, StepToken};

/// Sizes and speeds of a simulated engine.
#[derive(Debug, Clone, PartialEq)]
pub struct SimConfig {
    /// Tokens per KV block; at least 1.
    pub block_tokens: u32,
    /// Blocks of the pool.
    pub blocks: u32,
    /// Longest sequence, prompt and output together, in tokens.
    pub max_sequence_tokens: u32,
    /// Most sequences that run at once; at least 1.
    pub max_running: u32,
    /// Most tokens computed in one step; at least 1. Longer prompts are prefilled in chunks.
    pub max_step_tokens: u32,
    /// Most requests that wait. Beyond it [`Simulation::submit`] fails.
    pub max_waiting: u32,
    /// Who starts first and who gives way.
    pub policy: SchedulingPolicy,
    /// Whether steps report changes of the prefix cache.
    pub kv_events: bool,
    /// How long steps take.
    pub timing: Timing,
}

/// Why a request was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The prompt has no id.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt leaves no room for output.
    #[error("prompt has {prompt_tokens} tokens, a sequence has at most {max_tokens}")]
    TooLong {
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Most tokens of a sequence that fits context and pool.
        max_tokens: u32,
    },
    /// As many requests wait as may.
    #[error("{waiting} requests are waiting already")]
    QueueFull {
        /// Requests that wait.
        waiting: u32,
    },
    /// A request with this id is alive.
    #[error("request {0:?} exists")]
    Duplicate(RequestId),
}

/// The order in which requests start, and who loses its blocks when there are too few. vLLM's `--scheduling-policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// First come, first served; the last one to start gives way. vLLM's default: priorities have no effect.
    Fcfs,
    /// Lower priority first, then arrival; the last one in that order gives way.
    Priority,
}

/// What happens to requests in flight when the scheduler pauses. New ones wait in every mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseMode {
    /// All end as aborted.
    Abort,
    /// Those that run go on to their end. As in vLLM 0.32, one that is preempted meanwhile waits for the resume.
    Wait,
    /// All are frozen and go on after the resume.
    Keep,
}

/// Counters since the start and gauges of now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sequences in the batch.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Blocks of the pool.
    pub blocks: u32,
    /// Blocks that no sequence references.
    pub free_blocks: u32,
    /// Blocks that can be found in the prefix cache.
    pub cached_blocks: u32,
    /// Steps that scheduled something.
    pub steps: u64,
    /// Sequences that lost their blocks and were computed again.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache when a request began; not those of a request that may not read it, and
    /// not what is looked up again after a preemption.
    pub cache_queries_tokens: u64,
    /// Prompt tokens found there.
    pub cache_hits_tokens: u64,
    /// Prompt tokens of admitted requests.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub output_tokens: u64,
}

/// Position in the waiting queue: lower priority first where the policy looks at it, then arrival. A preempted sequence
/// keeps it: whatever waits came later or is less urgent.
type Turn = (i32, u64);

/// A simulated engine.
#[derive(Debug)]
pub struct Simulation {
    config: SimConfig,
    model: Arc<Model>,
    pool: BlockPool,
    /// In the order in which they started.
    #[expect(clippy::vec_box, reason = "sequences move between batch and queue: a move is a pointer")]
    running: Vec<Box<Sequence>>,
    waiting: BTreeMap<Turn, Box<Sequence>>,
    turns: BTreeMap<RequestId, Turn>,
    arrivals: u64,
    pause: Option<PauseMode>,
    /// Resets that no event has told yet.
    cleared: u32,
    /// The first in the queue found too few blocks, and nothing has changed since.
    starved: bool,
    stats: Stats,
}

impl Simulation {
    /// An idle engine.
    pub fn new(mut config: SimConfig, model: Arc<Model>) -> Self {
        config.block_tokens = config.block_tokens.max(1);
        config.max_running = config.max_running.max(1);
        config.max_step_tokens = config.max_step_tokens.max(1);
        let pool = BlockPool::new(config.blocks, config.kv_events);
        Self {
            config,
            model,
            pool,
            running: Vec::new(),
            waiting: BTreeMap::new(),
            turns: BTreeMap::new(),
            arrivals: 0,
            pause: None,
            cleared: 0,
            starved: false,
            stats: Stats::default(),
        }
    }

    /// The model, for log-probs of what steps report.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Longest sequence that fits both the context and the pool, in tokens.
    pub fn max_sequence_tokens(&self) -> u32 {
        self.config.max_sequence_tokens.min(self.config.blocks.saturating_mul(self.config.block_tokens))
    }

    /// Queues a request.
    pub fn submit(&mut self, request: SimRequest) -> Result<(), Error> {
        let (prompt_tokens, max_tokens) = (request.prompt.len() as u32, self.max_sequence_tokens());
        if prompt_tokens == 0 {
            return Err(Error::EmptyPrompt);
        }
        if prompt_tokens >= max_tokens {
            return Err(Error::TooLong { prompt_tokens, max_tokens });
        }
        if self.waiting.len() as u32 >= self.config.max_waiting {
            return Err(Error::QueueFull { waiting: self.waiting.len() as u32 });
        }
        if self.turns.contains_key(&request.id) {
            return Err(Error::Duplicate(request.id));
        }
        let priority = match self.config.policy {
            SchedulingPolicy::Fcfs => 0,
            SchedulingPolicy::Priority => request.priority,
        };
        let turn = (priority, self.arrivals);
        self.arrivals += 1;
        self.turns.insert(request.id, turn);
        let sequence = Sequence::new(request, turn, &self.model, self.config.block_tokens, max_tokens);
        self.waiting.insert(turn, Box::new(sequence));
        self.starved = false;
        Ok(())
    }

    /// Ends a request without an output, running or waiting. False if it is not alive.
    pub fn abort(&mut self, id: RequestId) -> bool {
        let Some(turn) = self.turns.remove(&id) else { return false };
        self.starved = false;
        if let Some(mut sequence) = self.waiting.remove(&turn) {
            self.release(&mut sequence);
        } else if let Some(index) = self.running.iter().position(|sequence| sequence.id == id) {
            let mut sequence = self.running.remove(index);
            self.release(&mut sequence);
        }
        true
    }

    /// Stops admitting. With [`PauseMode::Abort`] every request alive ends as an output of `step`.
    pub fn pause(&mut self, mode: PauseMode, step: &mut Step) {
        step.clear();
        self.pause = Some(mode);
        if mode == PauseMode::Abort {
            let running = std::mem::take(&mut self.running);
            let waiting = std::mem::take(&mut self.waiting);
            for mut sequence in running.into_iter().chain(waiting.into_values()) {
                self.release(&mut sequence);
                self.turns.remove(&sequence.id);
                step.end(sequence.id, Finish::Aborted);
            }
        }
    }

    /// Admits again; frozen sequences go on.
    pub fn resume(&mut self) {
        self.pause = None;
        self.starved = false;
    }

    /// How the scheduler is paused, if it is.
    pub fn paused(&self) -> Option<PauseMode> {
        self.pause
    }

    /// Whether the batch is empty. Never true for frozen sequences.
    pub fn drained(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether no request is alive.
    pub fn idle(&self) -> bool {
        self.turns.is_empty()
    }

    /// Empties the prefix cache. False, and nothing happens, while any sequence holds blocks.
    pub fn reset_prefix_cache(&mut self) -> bool {
        let done = self.pool.clear();
        self.cleared += u32::from(done && self.config.kv_events);
        done
    }

    /// Takes the blocks of whatever runs, which is computed again, and empties the prefix cache.
    pub fn preempt_and_reset(&mut self) {
        while let Some(last) = self.running.len().checked_sub(1) {
            self.preempt(last);
        }
        let reset = self.reset_prefix_cache();
        debug_assert!(reset, "only running sequences hold blocks");
    }

    /// When the next step can do something: never (all is idle, frozen or stalled), now, or later.
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        if self.pause == Some(PauseMode::Keep) {
            return None;
        }
        let can_admit = (self.running.len() as u32) < self.config.max_running;
        if can_admit && self.pause.is_none() && !self.waiting.is_empty() && !self.starved {
            return Some(now);
        }
        let due = |sequence: &Sequence| sequence.due().map(|due| due.max(now));
        self.running.iter().filter_map(|sequence| due(sequence)).min()
    }

    /// Counters and gauges.
    pub fn stats(&self) -> Stats {
        Stats {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            blocks: self.pool.total(),
            free_blocks: self.pool.free(),
            cached_blocks: self.pool.cached(),
            ..self.stats
        }
    }

    /// Runs one step that starts at `now`: schedules, computes, samples, ends what is complete.
    ///
    /// What it reports is true `step.length` after `now`.
    pub fn step(&mut self, now: Duration, step: &mut Step) {
        step.clear();
        if self.pause == Some(PauseMode::Keep) {
            return;
        }
        let cleared = std::mem::take(&mut self.cleared);
        step.events.extend((0..cleared).map(|_| KvEvent::Cleared));
        let work = self.schedule(now, step);
        step.removed(self.pool.take_removed());
        self.advance(now, work, step);
    }

    /// Gives the blocks of a sequence back, last one first, so that the start of a prefix survives longest.
    fn release(&mut self, sequence: &mut Sequence) {
        self.starved = false;
        for index in sequence.take_blocks().into_iter().rev() {
            self.pool.release(index);
        }
    }
}
