use crate::{Adapter, KvCounters, Pixels, WorkerId};

/// One worker as an operator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerReport {
    /// Name.
    pub id: WorkerId,
    /// `ready`, `unreachable` or `refused`.
    pub state: &'static str,
    /// Why it is not ready.
    pub reason: Option<String>,
    /// What it said about itself when last reached; absent before that.
    pub engine: Option<EngineReport>,
    /// One per data-parallel rank behind its address; empty while it is not ready.
    pub targets: Vec<TargetReport>,
}

/// What an engine said about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineReport {
    /// Release.
    pub version: String,
    /// Changes with the process.
    pub instance: String,
    /// Served names, the primary one first.
    pub models: Vec<String>,
    /// Loaded adapters, by name.
    pub adapters: Vec<Adapter>,
    /// Whether media are accepted.
    pub multimodal: bool,
    /// What it expects inside media features, where the operator stated it.
    pub pixels: Option<Pixels>,
    /// Whether missed KV events can be asked for again, on every rank; absent where it publishes none.
    pub kv_replay: Option<bool>,
    /// Data-parallel ranks of the whole deployment.
    pub data_parallel_size: u32,
}

/// One (worker, rank).
#[derive(Debug, Clone, PartialEq)]
pub struct TargetReport {
    /// Global data-parallel rank.
    pub rank: u32,
    /// KV room in tokens.
    pub capacity_tokens: u64,
    /// What it has to do.
    pub load: LoadReport,
    /// Why it is not known what others have sent to it, where its engine was asked.
    pub others_unknown: Option<String>,
    /// What is known of its block table.
    pub index: IndexReport,
}

/// Work in flight on one target, as this process counts it, and what the engine has beyond that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// Continuations in flight.
    pub in_flight: u64,
    /// Prompt tokens not known to be computed yet.
    pub prefill_tokens: u64,
    /// Tokens held by requests that are past their prefill.
    pub decode_tokens: u64,
    /// Requests that the engine runs or has in its queue beyond those in flight; absent where it does not tell.
    pub other_requests: Option<u64>,
    /// Tokens that the engine's running requests hold beyond those counted here; absent where it does not tell.
    pub other_tokens: Option<u64>,
}

/// What is known of one target's block table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexReport {
    /// `complete`, `partial` or `off`.
    pub state: &'static str,
    /// Why it is not complete.
    pub reason: Option<String>,
    /// Tokens per indexed block.
    pub block_tokens: u32,
    /// Blocks in device memory, host memory and storage.
    pub blocks: [u64; 3],
    /// `exact` once an event named media with their offsets, `unproven` before, `inexact` when the events cannot, or `off`.
    pub media: &'static str,
    /// Why media requests are matched only up to their first image, video or audio; absent when they match exactly.
    pub media_inexact: Option<String>,
    /// Why the cached tokens that the engine reports are not compared with what its events say; absent when they are.
    pub not_compared: Option<String>,
    /// What the feed has counted.
    pub counters: KvCounters,
}

/// What came of telling one worker to drop what it has cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClearReport {
    /// Name.
    pub worker: WorkerId,
    /// Why it did not; absent when it did.
    pub error: Option<String>,
}

/// Where one request would go, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteReport {
    /// Name of the policy.
    pub policy: String,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// The target it would go to; absent when it would wait or be refused.
    pub chosen: Option<(WorkerId, u32)>,
    /// What decided: `pin`, `session`, `siblings` or `policy`; absent when none was chosen.
    pub rule: Option<&'static str>,
    /// Why none was chosen.
    pub reason: Option<String>,
    /// Every target that serves the model.
    pub candidates: Vec<CandidateReport>,
}

/// One target as the choice sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateReport {
    /// Worker.
    pub worker: WorkerId,
    /// Global data-parallel rank.
    pub rank: u32,
    /// Leading prompt tokens its block table holds, on any tier.
    pub overlap_tokens: u64,
    /// Leading prompt tokens it is expected to hold once what was sent to it has run.
    pub predicted_tokens: u64,
    /// Its load.
    pub load: LoadReport,
    /// Lower is better; tokens of prefill, or what the policy counts.
    pub cost: f64,
    /// Why it cannot be chosen.
    pub excluded: Option<String>,
}
