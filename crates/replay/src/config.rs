//! What is replayed, on what.

use std::time::Duration;

use tito_engine_sim::{SchedulingPolicy, SimConfig, StepLoad, Timing};
use tito_policy::{BoardConfig, PolicyKind};

use crate::{EventPath, TraceRequest};

/// Most workers of one replay.
const WORKERS_MAX: u32 = 4096;
/// Most KV blocks of all workers together; each costs memory from the start.
const FLEET_BLOCKS_MAX: u64 = 1 << 24;
/// Tokens that one id of Mooncake's traces stands for.
pub(crate) const MOONCAKE_BLOCK_TOKENS: u32 = 512;
/// Longest replay in virtual time (seconds).
const SECONDS_MAX: f64 = 365.0 * 86_400.0;
/// Longest prompt or output of a request (tokens).
const TOKENS_MAX: u32 = 1 << 24;

/// A replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayConfig {
    /// Simulated workers, of one rank each; 1 to 4,096.
    pub workers: u32,
    /// Policies to compare. All but `direct`, which needs pins.
    pub policies: Vec<PolicyKind>,
    /// How policies choose; its policy is replaced by each of `policies`.
    pub board: BoardConfig,
    /// What each worker is.
    pub engine: EngineProfile,
    /// Continuations a worker may have in flight before requests wait in the router.
    pub in_flight_max: u32,
    /// How much faster than recorded requests arrive; 1 is as recorded.
    pub speed: f64,
    /// When the turns of a conversation arrive.
    pub arrivals: Arrivals,
    /// Tokens that one id of the trace stands for; at least 1.
    pub trace_block_tokens: u32,
    /// How block events reach the index.
    pub events: EventPath,
    /// Whether requests carry their `session_id` to the router, which then keeps sessions together.
    pub session_affinity: bool,
    /// Workers, the first ones, whose index is partial from the start: their events count, and the router does not
    /// take them for all that the workers hold.
    pub partial_workers: u32,
    /// Bound of the index (bytes).
    pub index_bytes_max: usize,
    /// Decides block identities and, through the board, every random choice.
    pub seed: u64,
}

/// When the turns of a conversation arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// All when they were recorded: an open loop.
    Recorded,
    /// First turns when they were recorded; each further one when the reply before it has come and its user has thought:
    /// a closed loop per conversation.
    AfterReply,
}

/// A simulated engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineProfile {
    /// Tokens per KV block; at least 1.
    pub block_tokens: u32,
    /// KV room in tokens.
    pub capacity_tokens: u64,
    /// Continuations that run at a time.
    pub running_max: u32,
    /// Tokens computed in one step.
    pub step_tokens_max: u32,
    /// How long steps take.
    pub timing: Timing,
    /// From the router's choice until the engine can schedule the request, and the way of its tokens back.
    pub request_time: Duration,
}

/// Why nothing was replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing to replay.
    #[error("the trace has no request")]
    EmptyTrace,
    /// A request cannot be simulated.
    #[error("request {0} has a time or length out of range")]
    Request(usize),
    /// Too few or too many workers.
    #[error("workers must be 1 to {WORKERS_MAX}")]
    Workers,
    /// Nothing to compare.
    #[error("name at least one policy")]
    NoPolicy,
    /// Requests of a trace are not pinned.
    #[error("the direct policy needs pins, which a trace does not have")]
    Direct,
    /// The speed is no positive number.
    #[error("the speed must be above 0")]
    Speed,
    /// Nothing fits the engine.
    #[error("an engine needs at least two blocks")]
    Engine,
    /// Ids of the trace stand for nothing.
    #[error("an id of the trace must stand for at least one token")]
    TraceBlock,
    /// The loss of events is no probability.
    #[error("the share of lost events must be 0 to 1")]
    Loss,
    /// More partial workers than workers.
    #[error("more workers are partial than there are")]
    Partial,
    /// The engines do not fit into memory.
    #[error("all workers together must have at most {FLEET_BLOCKS_MAX} KV blocks")]
    Blocks,
}

impl EngineProfile {
    /// A 70B model on eight 80-GB accelerators, roughly: 10,000 prompt tokens a second, room for a million tokens,
    /// 20 ms per decode step and a little more per sequence. Blocks of 16 tokens, vLLM's default.
    pub const STANDARD: Self = Self {
        block_tokens: 16,
        capacity_tokens: 1_000_000,
        running_max: 256,
        step_tokens_max: 8192,
        timing: Timing {
            step: Duration::from_millis(20),
            prefill_token: Duration::from_micros(100),
            decode_sequence: Duration::from_micros(100),
            speed: 1.0,
            ..Timing::INSTANT
        },
        request_time: Duration::ZERO,
    };

    /// Whether a request has room, prompt and output together. One that has none is never served.
    pub(crate) fn fits(&self, request: &TraceRequest) -> bool {
        let blocks = self.capacity_tokens / u64::from(self.block_tokens);
        let tokens = u64::from(request.input_length) + u64::from(request.output_tokens());
        tokens <= blocks * u64::from(self.block_tokens)
    }

    /// How long it has taken to answer when it has nothing else to do and `cached_tokens` of the prompt in its cache.
    pub(crate) fn alone(&self, input_length: u32, output_tokens: u32, cached_tokens: u32) -> Duration {
        let cached = cached_tokens.min(input_length - 1);
        let mut prefill = StepLoad::default();
        prefill.prefill(cached, input_length - cached);
        let mut decode = StepLoad::default();
        // The cost is linear in the context: each step costs what the one in the middle does.
        decode.decode(input_length + output_tokens / 2);
        let more_chunks = (input_length - cached - 1) / self.step_tokens_max.max(1);
        self.request_time
            + self.timing.step_length(&prefill)
            + self.timing.step_length(&StepLoad::default()) * more_chunks
            + self.timing.step_length(&decode) * (output_tokens - 1)
    }

    pub(crate) fn sim_config(&self) -> SimConfig {
        SimConfig {
            block_tokens: self.block_tokens,
            blocks: u32::try_from(self.capacity_tokens / u64::from(self.block_tokens)).unwrap_or(u32::MAX),
            max_sequence_tokens: u32::MAX,
            max_running: self.running_max,
            max_step_tokens: self.step_tokens_max,
            max_waiting: u32::MAX,
            policy: SchedulingPolicy::Fcfs,
            kv_events: true,
            timing: self.timing,
        }
    }
}

impl ReplayConfig {
    /// The documented defaults: standard engines, arrivals as recorded, every policy that needs no pin.
    pub fn new(workers: u32, seed: u64) -> Self {
        Self {
            workers,
            policies: PolicyKind::ALL.into_iter().filter(|policy| *policy != PolicyKind::Direct).collect(),
            board: BoardConfig::new(PolicyKind::Kv, seed),
            engine: EngineProfile::STANDARD,
            in_flight_max: 4 * EngineProfile::STANDARD.running_max,
            speed: 1.0,
            arrivals: Arrivals::Recorded,
            trace_block_tokens: MOONCAKE_BLOCK_TOKENS,
            events: EventPath { delay: Duration::from_millis(5), jitter: Duration::ZERO, loss: 0.0 },
            session_affinity: false,
            partial_workers: 0,
            index_bytes_max: 1 << 30,
            seed,
        }
    }

    pub(crate) fn check(&self, trace: &[TraceRequest]) -> Result<(), Error> {
        if trace.is_empty() || u32::try_from(trace.len()).is_err() {
            return Err(Error::EmptyTrace);
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(Error::Workers);
        }
        if self.policies.is_empty() {
            return Err(Error::NoPolicy);
        }
        if self.policies.contains(&PolicyKind::Direct) {
            return Err(Error::Direct);
        }
        if !(self.speed > 0.0 && self.speed.is_finite()) {
            return Err(Error::Speed);
        }
        if self.engine.block_tokens == 0 || self.engine.sim_config().blocks < 2 {
            return Err(Error::Engine);
        }
        let blocks = self.engine.capacity_tokens / u64::from(self.engine.block_tokens);
        if blocks > FLEET_BLOCKS_MAX / u64::from(self.workers) {
            return Err(Error::Blocks);
        }
        if self.trace_block_tokens == 0 {
            return Err(Error::TraceBlock);
        }
        if !(0.0..=1.0).contains(&self.events.loss) {
            return Err(Error::Loss);
        }
        if self.partial_workers > self.workers {
            return Err(Error::Partial);
        }
        let seconds = SECONDS_MAX * self.speed.min(1.0);
        let fine = |request: &TraceRequest| {
            (0.0..seconds).contains(&(request.timestamp / 1000.0))
                && (1..=TOKENS_MAX).contains(&request.input_length)
                && request.output_length <= TOKENS_MAX
                && request.delay.is_none_or(|delay| (0.0..seconds).contains(&(delay / 1000.0)))
        };
        match trace.iter().position(|request| !fine(request)) {
            Some(index) => Err(Error::Request(index)),
            None => Ok(()),
        }
    }
}
