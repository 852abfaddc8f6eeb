//! The simulation held against real vLLM: one trace, served by both.
//!
//! `fixtures/replay` holds the recording of vLLM 0.32 on CPU and the times that were fitted to its first half
//! (`cargo xtask anchor fit`); docs/replay.md says what is expected of the second. Nothing here runs an engine.

mod recording;

use recording::{Comparison, Engine, Recording};

/// Furthest that the simulated hit rate may be from the recorded one (share of prompt tokens).
const HIT_RATE_ERROR_MAX: f64 = 0.02;
/// Furthest that a simulated quantile of TTFT or E2E latency may be from the recorded one (share of the recorded).
const LATENCY_ERROR_MAX: f64 = 0.15;

fn fixture(name: &str) -> String {
    let path = format!("{}/../../fixtures/replay/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn recorded() -> (Recording, Engine) {
    let recording = Recording::parse(&fixture("dense.jsonl")).expect("a line of the recording");
    (recording, serde_json::from_str(&fixture("dense.json")).expect("the recorded engine"))
}

#[test]
fn what_was_not_fitted_is_simulated_as_the_real_engine_did_it() {
    let (recording, engine) = recorded();
    let served = recording.simulated(&engine);
    let half = recording.trace.len() / 2;
    let second = Comparison::of(&recording, &served, half..recording.trace.len());
    let hit_rate = second.hit_rate;
    assert!((hit_rate.real - hit_rate.simulated).abs() <= HIT_RATE_ERROR_MAX, "{second:?}");
    for latency in second.ttft.into_iter().chain(second.e2e) {
        assert!(latency.error() <= LATENCY_ERROR_MAX, "{second:?}");
    }
}

#[test]
fn without_eviction_the_simulated_hit_rate_would_be_wrong() {
    let (recording, mut engine) = recorded();
    engine.num_gpu_blocks = 100_000;
    let served = recording.simulated(&engine);
    let half = recording.trace.len() / 2;
    let hit_rate = Comparison::of(&recording, &served, half..recording.trace.len()).hit_rate;
    assert!(hit_rate.simulated - hit_rate.real > 2.0 * HIT_RATE_ERROR_MAX, "{hit_rate:?}");
}

#[test]
fn the_recorded_engine_had_to_queue() {
    let (recording, engine) = recorded();
    let all = 0..recording.trace.len();
    // At their arrival as many requests were in flight as run at a time.
    let end = |index: usize| recording.trace[index].timestamp + recording.measured[index].e2e_ms;
    let in_flight = |index: usize| {
        let now = recording.trace[index].timestamp;
        (0..index).filter(|&earlier| end(earlier) > now).count()
    };
    let queued = all.clone().filter(|&index| in_flight(index) >= engine.max_num_seqs as usize).count();
    assert!(queued > all.len() / 20, "{queued} of {} requests", all.len());
}
