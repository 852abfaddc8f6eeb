//! What an operator is told: the workers, and where a request would go and why.
//!
//! Like every whole reply these spell null. A reader may rely on the names and must expect further ones.

use serde::Serialize;
use tito_types::{
    CandidateReport, EngineReport, IndexReport, KvCounters, LoadReport, Pixels, RouteReport, TargetReport,
    WorkerReport,
};

/// The answer to "which workers are there, and how are they?".
pub fn workers_body(workers: &[WorkerReport]) -> Vec<u8> {
    render(&Workers { workers: workers.iter().map(Worker::from).collect() })
}

/// The answer to "where would this request go, and why?": one report per prompt, in order.
pub fn route_body(routes: &[RouteReport]) -> Vec<u8> {
    render(&Routes { routes: routes.iter().map(Route::from).collect() })
}

fn render(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("plain structs can be written to memory")
}

#[derive(Serialize)]
struct Workers<'a> {
    workers: Vec<Worker<'a>>,
}

#[derive(Serialize)]
struct Worker<'a> {
    id: &'a str,
    state: &'a str,
    reason: Option<&'a str>,
    engine: Option<Engine<'a>>,
    targets: Vec<Target<'a>>,
}

#[derive(Serialize)]
struct Engine<'a> {
    version: &'a str,
    instance: &'a str,
    models: &'a [String],
    adapters: Vec<Adapter<'a>>,
    multimodal: bool,
    pixels: Option<&'a str>,
    kv_replay: Option<bool>,
    data_parallel_size: u32,
}

#[derive(Serialize)]
struct Adapter<'a> {
    name: &'a str,
    id: u64,
    source: &'a str,
}

#[derive(Serialize)]
struct Target<'a> {
    rank: u32,
    capacity_tokens: u64,
    load: Load,
    others_unknown: Option<&'a str>,
    index: Index<'a>,
}

#[derive(Serialize)]
struct Load {
    in_flight: u64,
    prefill_tokens: u64,
    decode_tokens: u64,
    other_requests: Option<u64>,
    other_tokens: Option<u64>,
}

#[derive(Serialize)]
struct Index<'a> {
    state: &'a str,
    reason: Option<&'a str>,
    block_tokens: u32,
    blocks: Blocks,
    media: &'a str,
    media_inexact: Option<&'a str>,
    not_compared: Option<&'a str>,
    counters: Counters,
}

#[derive(Serialize)]
struct Blocks {
    gpu: u64,
    cpu: u64,
    storage: u64,
}

#[derive(Serialize)]
struct Counters {
    batches: u64,
    gaps: u64,
    replays: u64,
    duplicates: u64,
    unreadable: u64,
    skipped: u64,
    restarts: u64,
}

#[derive(Serialize)]
struct Routes<'a> {
    routes: Vec<Route<'a>>,
}

#[derive(Serialize)]
struct Route<'a> {
    policy: &'a str,
    prompt_tokens: u64,
    chosen: Option<Chosen<'a>>,
    rule: Option<&'a str>,
    reason: Option<&'a str>,
    candidates: Vec<Candidate<'a>>,
}

#[derive(Serialize)]
struct Chosen<'a> {
    worker: &'a str,
    rank: u32,
}

#[derive(Serialize)]
struct Candidate<'a> {
    worker: &'a str,
    rank: u32,
    overlap_tokens: u64,
    predicted_tokens: u64,
    load: Load,
    /// Null where it is not a finite number.
    cost: f64,
    excluded: Option<&'a str>,
}

impl<'a> From<&'a WorkerReport> for Worker<'a> {
    fn from(report: &'a WorkerReport) -> Self {
        let WorkerReport { id, state, reason, engine, targets } = report;
        Self {
            id: id.as_str(),
            state,
            reason: reason.as_deref(),
            engine: engine.as_ref().map(Engine::from),
            targets: targets.iter().map(Target::from).collect(),
        }
    }
}

impl<'a> From<&'a EngineReport> for Engine<'a> {
    fn from(report: &'a EngineReport) -> Self {
        let EngineReport {
            version,
            instance,
            models,
            adapters,
            multimodal,
            pixels,
            kv_replay,
            data_parallel_size,
        } = report;
        Self {
            version,
            instance,
            models,
            adapters: adapters.iter().map(Adapter::from).collect(),
            multimodal: *multimodal,
            pixels: pixels.map(Pixels::word),
            kv_replay: *kv_replay,
            data_parallel_size: *data_parallel_size,
        }
    }
}

impl<'a> From<&'a tito_types::Adapter> for Adapter<'a> {
    fn from(report: &'a tito_types::Adapter) -> Self {
        let tito_types::Adapter { name, id, source } = report;
        Self { name, id: *id, source }
    }
}

impl<'a> From<&'a TargetReport> for Target<'a> {
    fn from(report: &'a TargetReport) -> Self {
        let TargetReport { rank, capacity_tokens, load, others_unknown, index } = report;
        Self {
            rank: *rank,
            capacity_tokens: *capacity_tokens,
            load: Load::from(*load),
            others_unknown: others_unknown.as_deref(),
            index: Index::from(index),
        }
    }
}

impl From<LoadReport> for Load {
    fn from(report: LoadReport) -> Self {
        let LoadReport { in_flight, prefill_tokens, decode_tokens, other_requests, other_tokens } = report;
        Self { in_flight, prefill_tokens, decode_tokens, other_requests, other_tokens }
    }
}

impl<'a> From<&'a IndexReport> for Index<'a> {
    fn from(report: &'a IndexReport) -> Self {
        let IndexReport { state, reason, block_tokens, blocks, media, media_inexact, not_compared, counters } =
            report;
        let [gpu, cpu, storage] = *blocks;
        Self {
            state,
            reason: reason.as_deref(),
            block_tokens: *block_tokens,
            blocks: Blocks { gpu, cpu, storage },
            media,
            media_inexact: media_inexact.as_deref(),
            not_compared: not_compared.as_deref(),
            counters: Counters::from(*counters),
        }
    }
}

impl From<KvCounters> for Counters {
    fn from(counters: KvCounters) -> Self {
        let KvCounters { batches, gaps, replays, duplicates, unreadable, skipped, restarts } = counters;
        Self { batches, gaps, replays, duplicates, unreadable, skipped, restarts }
    }
}

impl<'a> From<&'a RouteReport> for Route<'a> {
    fn from(report: &'a RouteReport) -> Self {
        let RouteReport { policy, prompt_tokens, chosen, rule, reason, candidates } = report;
        Self {
            policy,
            prompt_tokens: *prompt_tokens,
            chosen: chosen.as_ref().map(|(worker, rank)| Chosen { worker: worker.as_str(), rank: *rank }),
            rule: *rule,
            reason: reason.as_deref(),
            candidates: candidates.iter().map(Candidate::from).collect(),
        }
    }
}

impl<'a> From<&'a CandidateReport> for Candidate<'a> {
    fn from(report: &'a CandidateReport) -> Self {
        let CandidateReport { worker, rank, overlap_tokens, predicted_tokens, load, cost, excluded } = report;
        Self {
            worker: worker.as_str(),
            rank: *rank,
            overlap_tokens: *overlap_tokens,
            predicted_tokens: *predicted_tokens,
            load: Load::from(*load),
            cost: *cost,
            excluded: excluded.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests;
