use std::time::Duration;

use tito_policy::PolicyKind;

use super::*;

/// Blocks of this many tokens keep the simulations small.
const BLOCK_TOKENS: u32 = 16;

fn request(timestamp: f64, input_length: u32, output_length: u32, hash_ids: &[u64]) -> TraceRequest {
    TraceRequest { timestamp, input_length, output_length, hash_ids: hash_ids.to_vec() }
}

fn config(workers: u32, policies: &[PolicyKind]) -> ReplayConfig {
    let mut config = ReplayConfig::new(workers, 3);
    config.policies = policies.to_vec();
    config.engine.block_tokens = BLOCK_TOKENS;
    config.engine.capacity_tokens = 16_000;
    config.engine.step_tokens_max = 512;
    config.engine.running_max = 16;
    config
}

/// Conversations of several turns, interleaved: each turn repeats the one before and adds four blocks. All share
/// their first block.
fn conversations(count: u64, turns: u64) -> Vec<TraceRequest> {
    let turn = |turn: u64, conversation: u64| {
        let blocks = 4 * (turn + 1);
        let ids: Vec<u64> =
            (0..=blocks).map(|block| if block == 0 { 0 } else { conversation * 1000 + block }).collect();
        let timestamp = turn as f64 * 4000.0 + conversation as f64 * 37.0;
        request(timestamp, blocks as u32 * BLOCK_TOKENS + 5, 12, &ids)
    };
    (0..turns).flat_map(|at| (1..=count).map(move |conversation| turn(at, conversation))).collect()
}

fn silent(_: u64, _: u64) {}

#[test]
fn the_same_trace_and_seed_give_the_same_report() {
    let trace = conversations(20, 4);
    let config = ReplayConfig { policies: ReplayConfig::new(1, 0).policies, ..config(4, &[]) };
    let first = run(&trace, &config, &mut silent).unwrap();
    assert_eq!(first, run(&trace, &config, &mut silent).unwrap());
    assert_eq!(first.policies.len(), 5);
}

#[test]
fn no_policy_finds_more_than_caches_that_never_forget_and_kv_finds_most() {
    // Not a multiple of the workers: no conversation meets its worker again by mere counting.
    let trace = conversations(23, 5);
    let config = ReplayConfig { policies: ReplayConfig::new(1, 0).policies, ..config(4, &[]) };
    let report = run(&trace, &config, &mut silent).unwrap();
    for policy in &report.policies {
        assert_eq!((policy.completed, policy.rejected), (115, 0), "{}", policy.policy);
        assert!(policy.hit_rate <= policy.best.fleet + 1e-9, "{}", policy.policy);
        assert!(policy.best.fleet <= policy.best.one_cache + 1e-9, "{}", policy.policy);
        assert!(policy.ttft.p50 <= policy.ttft.p99 && policy.ttft.p99 <= policy.e2e.max);
    }
    let [kv, others @ ..] = report.policies.as_slice() else { panic!("no policies") };
    assert!(others.iter().all(|other| kv.hit_rate > other.hit_rate + 0.1), "{report:?}");
    assert!(kv.hit_rate > 0.9 * report.one_cache_hit_rate);
    assert!(kv.balance.requests < 2.0, "{:?}", kv.balance);
}

#[test]
fn what_the_index_knows_is_what_the_engine_finds_when_requests_do_not_overlap() {
    let trace: Vec<TraceRequest> = (0..6)
        .map(|turn| {
            let ids: Vec<u64> = (0..=turn).collect();
            request(turn as f64 * 10_000.0, (turn as u32 + 1) * BLOCK_TOKENS, 4, &ids)
        })
        .collect();
    let report = run(&trace, &config(3, &[PolicyKind::Kv]), &mut silent).unwrap();
    let kv = &report.policies[0];
    // Each turn finds the one before: 0 + 1 + 2 + 3 + 4 + 5 of 1 + … + 6 blocks.
    assert!((kv.hit_rate - 15.0 / 21.0).abs() < 1e-9, "{}", kv.hit_rate);
    assert!((kv.known_hit_rate - kv.hit_rate).abs() < 1e-9);
    assert!((kv.best.fleet - kv.hit_rate).abs() < 1e-9);
}

#[test]
fn the_last_token_of_a_prompt_is_never_found() {
    let trace =
        [request(0.0, 32, 1, &[1, 2]), request(9e3, 32, 1, &[1, 2]), request(18e3, 33, 1, &[1, 2, 3])];
    let report = run(&trace, &config(1, &[PolicyKind::Kv]), &mut silent).unwrap();
    let expected = f64::from(16 + 32) / f64::from(32 + 32 + 33);
    assert!((report.one_cache_hit_rate - expected).abs() < 1e-9);
    assert!((report.policies[0].hit_rate - expected).abs() < 1e-9);
}

#[test]
fn requests_wait_in_the_router_when_every_worker_is_at_its_limit_and_all_end() {
    let trace: Vec<TraceRequest> = (0..40).map(|id| request(0.0, 64, 8, &[id * 10])).collect();
    let config = ReplayConfig { in_flight_max: 2, ..config(2, &[PolicyKind::Kv, PolicyKind::Random]) };
    let report = run(&trace, &config, &mut silent).unwrap();
    for policy in &report.policies {
        assert_eq!((policy.completed, policy.queued), (40, 36));
        assert!(policy.wait.max > policy.wait.p50 && policy.wait.p50 > 0.0);
        assert!((policy.balance.requests - 1.0).abs() < 0.2);
    }
}

#[test]
fn a_request_longer_than_any_engine_is_counted_and_the_rest_goes_on() {
    let trace = [request(0.0, 20_000, 1, &[1]), request(0.0, 10, 1, &[2])];
    let report = run(&trace, &config(1, &[PolicyKind::Kv]), &mut silent).unwrap();
    assert_eq!((report.policies[0].completed, report.policies[0].rejected), (1, 1));
}

#[test]
fn caches_under_pressure_forget_and_the_index_follows() {
    let trace = conversations(200, 4);
    let mut config = config(2, &[PolicyKind::Kv]);
    config.engine.capacity_tokens = 4_000;
    let kv = &run(&trace, &config, &mut silent).unwrap().policies[0];
    assert_eq!(kv.completed, 800);
    assert!(kv.hit_rate < kv.best.fleet - 0.05, "{kv:?}");
    assert!((kv.known_hit_rate - kv.hit_rate).abs() < 0.05, "{kv:?}");
}

#[test]
fn a_faster_replay_takes_less_virtual_time_and_the_order_of_lines_does_not_matter() {
    let mut trace = conversations(10, 3);
    let slow = run(&trace, &config(2, &[PolicyKind::RoundRobin]), &mut silent).unwrap();
    trace.reverse();
    let config = ReplayConfig { speed: 4.0, ..config(2, &[PolicyKind::RoundRobin]) };
    let fast = run(&trace, &config, &mut silent).unwrap();
    assert!((slow.seconds / fast.seconds - 4.0).abs() < 1e-6);
    assert_eq!(fast.policies[0].completed, 30);
}

#[test]
fn progress_never_goes_back_and_ends_at_the_whole() {
    let trace = conversations(40, 4);
    let mut told = Vec::new();
    let policies = [PolicyKind::Kv, PolicyKind::Random];
    run(&trace, &config(2, &policies), &mut |done, total| told.push((done, total))).unwrap();
    assert!(told.len() > 4 && told.is_sorted());
    assert!(told.iter().all(|(done, total)| done <= total && *total == 320));
    assert_eq!(told.last(), Some(&(320, 320)));
}

#[track_caller]
fn refused(trace: &[TraceRequest], change: impl FnOnce(&mut ReplayConfig), error: Error) {
    let mut config = config(2, &[PolicyKind::Kv]);
    change(&mut config);
    assert_eq!(run(trace, &config, &mut silent), Err(error));
}

#[test]
fn what_cannot_be_replayed_is_refused_before_anything_runs() {
    let trace = [request(0.0, 10, 1, &[1])];
    refused(&[], |_| (), Error::EmptyTrace);
    refused(&trace, |config| config.workers = 0, Error::Workers);
    refused(&trace, |config| config.workers = 100_000, Error::Workers);
    refused(&trace, |config| config.policies.clear(), Error::NoPolicy);
    refused(&trace, |config| config.policies.push(PolicyKind::Direct), Error::Direct);
    refused(&trace, |config| config.speed = 0.0, Error::Speed);
    refused(&trace, |config| config.speed = f64::NAN, Error::Speed);
    refused(&trace, |config| config.engine.block_tokens = 0, Error::Engine);
    refused(&trace, |config| config.engine.capacity_tokens = 20, Error::Engine);
    refused(&trace, |config| config.engine.capacity_tokens = u64::MAX, Error::Blocks);
    for bad in [request(-1.0, 10, 1, &[1]), request(f64::NAN, 10, 1, &[1]), request(1e300, 10, 1, &[1])] {
        refused(&[trace[0].clone(), bad], |_| (), Error::Request(1));
    }
    refused(&[request(0.0, 0, 1, &[])], |_| (), Error::Request(0));
    refused(&[request(0.0, u32::MAX, 1, &[])], |_| (), Error::Request(0));
    refused(&[request(0.0, 1, u32::MAX, &[])], |_| (), Error::Request(0));
}

#[test]
fn a_line_of_a_mooncake_trace_is_read() {
    let line = r#"{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}"#;
    let read: TraceRequest = serde_json::from_str(line).unwrap();
    assert_eq!(read, request(27_482.0, 6955, 52, &[46, 47]));
}

#[test]
fn prompts_are_equal_as_far_as_their_ids_are() {
    let tokens = |length, ids: &[u64], index| trace::tokens(&request(0.0, length, 1, ids), index, 4);
    let (a, b) = (tokens(12, &[1, 2, 3], 0), tokens(10, &[1, 2, 4], 1));
    assert_eq!((a.len(), b.len()), (12, 10));
    assert_eq!(a[..8], b[..8]);
    assert_ne!(a[8..10], b[8..10]);
    // Beyond the ids every request is alone.
    assert_ne!(tokens(12, &[1], 0)[4..], tokens(12, &[1], 1)[4..]);
}

#[test]
fn an_engine_as_fast_as_possible_ends_everything_at_once() {
    let mut config = config(1, &[PolicyKind::Kv]);
    config.engine.timing = tito_engine_sim::Timing::INSTANT;
    config.event_delay = Duration::ZERO;
    let report = run(&conversations(3, 3), &config, &mut silent).unwrap();
    assert!(report.policies[0].e2e.max.abs() < 1e-9);
}
