use std::time::Duration;

use tito_policy::PolicyKind;

use super::*;

mod unserved;

/// Blocks of this many tokens keep the simulations small.
const BLOCK_TOKENS: u32 = 16;

fn request(timestamp: f64, input_length: u32, output_length: u32, hash_ids: &[u64]) -> TraceRequest {
    let hash_ids = hash_ids.to_vec();
    TraceRequest { timestamp, input_length, output_length, hash_ids, ..TraceRequest::default() }
}

fn config(workers: u32, policies: &[PolicyKind]) -> ReplayConfig {
    let mut config = ReplayConfig::new(workers, 3);
    config.policies = policies.to_vec();
    config.engine.block_tokens = BLOCK_TOKENS;
    config.trace_block_tokens = BLOCK_TOKENS;
    config.engine.capacity_tokens = 16_000;
    config.engine.step_tokens_max = 512;
    config.engine.running_max = 16;
    config
}

/// Turns of conversations, interleaved: turn t has `first` + t * `grows` blocks, of which all conversations share the first.
fn turns(
    count: u64,
    turns: u64,
    (first, grows): (u64, u64),
    output: u32,
    apart_ms: f64,
) -> Vec<TraceRequest> {
    let turn = |turn: u64, conversation: u64| {
        let blocks = first + turn * grows;
        let ids: Vec<u64> =
            (0..=blocks).map(|block| if block == 0 { 0 } else { conversation * 1000 + block }).collect();
        let timestamp = turn as f64 * 4000.0 + conversation as f64 * apart_ms;
        request(timestamp, blocks as u32 * BLOCK_TOKENS + 5, output, &ids)
    };
    (0..turns).flat_map(|at| (1..=count).map(move |conversation| turn(at, conversation))).collect()
}

/// Each turn repeats the one before and adds four blocks.
fn conversations(count: u64, of: u64) -> Vec<TraceRequest> {
    turns(count, of, (4, 4), 12, 37.0)
}

/// Turns repeat prompt and answer of the turn before: four of the six blocks between two prompts are the answer.
fn answered(count: u64, of: u64) -> Vec<TraceRequest> {
    turns(count, of, (4, 6), 64, 1.0)
}

/// The same requests as the turns of one user.
fn of_one_user(mut trace: Vec<TraceRequest>) -> Vec<TraceRequest> {
    for request in &mut trace {
        request.session_id = Some("a".to_owned());
    }
    trace
}

fn replayed(trace: &[TraceRequest], config: &ReplayConfig) -> Report {
    run(trace, config, &mut silent).unwrap()
}

/// What the first policy made of a trace.
fn first(trace: &[TraceRequest], config: &ReplayConfig) -> PolicyReport {
    replayed(trace, config).policies.swap_remove(0)
}

fn silent(_: u64, _: u64) {}

#[test]
fn the_same_trace_and_seed_give_the_same_report() {
    let trace = conversations(20, 4);
    let config = ReplayConfig { policies: ReplayConfig::new(1, 0).policies, ..config(4, &[]) };
    let first = replayed(&trace, &config);
    assert_eq!(first, replayed(&trace, &config));
    assert_eq!(first.policies.len(), 5);
}

#[test]
fn no_policy_finds_more_than_caches_that_never_forget_and_kv_finds_most() {
    // Not a multiple of the workers: no conversation meets its worker again by mere counting.
    let trace = conversations(23, 5);
    let config = ReplayConfig { policies: ReplayConfig::new(1, 0).policies, ..config(4, &[]) };
    let report = replayed(&trace, &config);
    for policy in &report.policies {
        assert_eq!((policy.completed, policy.rejected), (115, 0), "{}", policy.policy);
        assert!(policy.hit_rate.unwrap() <= policy.best.fleet.unwrap() + 1e-9, "{}", policy.policy);
        assert!(policy.best.fleet.unwrap() <= policy.best.one_cache.unwrap() + 1e-9, "{}", policy.policy);
        assert!(
            policy.ttft.unwrap().p50 <= policy.ttft.unwrap().p99
                && policy.ttft.unwrap().p99 <= policy.e2e.unwrap().max
        );
    }
    let [kv, others @ ..] = report.policies.as_slice() else { panic!("no policies") };
    assert!(others.iter().all(|other| kv.hit_rate.unwrap() > other.hit_rate.unwrap() + 0.1), "{report:?}");
    assert!(kv.hit_rate.unwrap() > 0.9 * report.one_cache_hit_rate.unwrap());
    assert!(kv.balance.requests.unwrap() < 2.0, "{:?}", kv.balance);
}

#[test]
fn what_the_index_knows_is_what_the_engine_finds_when_requests_do_not_overlap() {
    let trace: Vec<TraceRequest> = (0..6)
        .map(|turn| {
            let ids: Vec<u64> = (0..=turn).collect();
            request(turn as f64 * 10_000.0, (turn as u32 + 1) * BLOCK_TOKENS, 4, &ids)
        })
        .collect();
    let report = replayed(&trace, &config(3, &[PolicyKind::Kv]));
    let kv = &report.policies[0];
    // Each turn finds the one before: 0 + 1 + 2 + 3 + 4 + 5 of 1 + … + 6 blocks.
    assert!((kv.hit_rate.unwrap() - 15.0 / 21.0).abs() < 1e-9, "{}", kv.hit_rate.unwrap());
    assert!((kv.known_hit_rate.unwrap() - kv.hit_rate.unwrap()).abs() < 1e-9);
    assert!((kv.best.fleet.unwrap() - kv.hit_rate.unwrap()).abs() < 1e-9);
}

#[test]
fn the_last_token_of_a_prompt_is_never_found() {
    let trace =
        [request(0.0, 32, 1, &[1, 2]), request(9e3, 32, 1, &[1, 2]), request(18e3, 33, 1, &[1, 2, 3])];
    let report = replayed(&trace, &config(1, &[PolicyKind::Kv]));
    let expected = f64::from(16 + 32) / f64::from(32 + 32 + 33);
    assert!((report.one_cache_hit_rate.unwrap() - expected).abs() < 1e-9);
    assert!((report.policies[0].hit_rate.unwrap() - expected).abs() < 1e-9);
}

#[test]
fn requests_wait_in_the_router_when_every_worker_is_at_its_limit_and_all_end() {
    let trace: Vec<TraceRequest> = (0..40).map(|id| request(0.0, 64, 8, &[id * 10])).collect();
    let config = ReplayConfig { in_flight_max: 2, ..config(2, &[PolicyKind::Kv, PolicyKind::Random]) };
    let report = replayed(&trace, &config);
    for policy in &report.policies {
        assert_eq!((policy.completed, policy.queued), (40, 36));
        assert!(policy.wait.unwrap().max > policy.wait.unwrap().p50 && policy.wait.unwrap().p50 > 0.0);
        assert!((policy.balance.requests.unwrap() - 1.0).abs() < 0.2);
    }
}

#[test]
fn caches_under_pressure_forget_and_the_index_follows() {
    let trace = conversations(200, 4);
    let mut config = config(2, &[PolicyKind::Kv]);
    config.engine.capacity_tokens = 4_000;
    let kv = first(&trace, &config);
    assert_eq!(kv.completed, 800);
    assert!(kv.hit_rate.unwrap() < kv.best.fleet.unwrap() - 0.05, "{kv:?}");
    assert!((kv.known_hit_rate.unwrap() - kv.hit_rate.unwrap()).abs() < 0.05, "{kv:?}");
}

#[test]
fn a_faster_replay_takes_less_virtual_time_and_the_order_of_lines_does_not_matter() {
    let mut trace = conversations(10, 3);
    let slow = replayed(&trace, &config(2, &[PolicyKind::RoundRobin]));
    trace.reverse();
    let config = ReplayConfig { speed: 4.0, ..config(2, &[PolicyKind::RoundRobin]) };
    let fast = replayed(&trace, &config);
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
    refused(&trace, |config| config.trace_block_tokens = 0, Error::TraceBlock);
    refused(&trace, |config| config.partial_workers = 3, Error::Partial);
    for loss in [-0.1, 1.1, f64::NAN] {
        refused(&trace, |config| config.events.loss = loss, Error::Loss);
    }
    for delay in [-1.0, f64::NAN, 1e300] {
        let late = TraceRequest { delay: Some(delay), ..trace[0].clone() };
        refused(&[late], |_| (), Error::Request(0));
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
fn an_engine_as_fast_as_possible_ends_everything_at_once() {
    let mut config = config(1, &[PolicyKind::Kv]);
    config.engine.timing = tito_engine_sim::Timing::INSTANT;
    config.events.delay = Duration::ZERO;
    let report = replayed(&conversations(3, 3), &config);
    assert!(report.policies[0].e2e.unwrap().max.abs() < 1e-9);
}

#[test]
fn a_next_turn_finds_the_answer_before_it_and_the_shares_say_how_many_do() {
    let trace = answered(5, 3);
    let report = replayed(&trace, &config(1, &[PolicyKind::Kv]));
    let shares = report.turns;
    assert!((shares.next - 10.0 / 15.0).abs() < 1e-9 && (shares.named - shares.next).abs() < 1e-9);
    assert!(shares.ambiguous.abs() < 1e-9);
    // First turns share a block; later ones find 4 or 10 blocks of a prompt and 4 of an answer, of which the last token is
    // never computed: 69 + 64 - 1 tokens are 8 blocks.
    let prompts = [4, 10, 16].map(|blocks| 5 * (blocks * 16 + 5)).iter().sum::<u32>();
    let found = 16 * (4 + 5 * (8 + 14));
    let expected = f64::from(found) / f64::from(prompts);
    assert!(
        (report.policies[0].hit_rate.unwrap() - expected).abs() < 1e-9,
        "{}",
        report.policies[0].hit_rate.unwrap()
    );
    assert!((report.one_cache_hit_rate.unwrap() - expected).abs() < 1e-9);
    // Without the next turn's ids the answer is nobody's.
    let mut unnamed = trace;
    for request in &mut unnamed {
        request.session_id = Some(request.timestamp.to_string());
    }
    let unnamed = replayed(&unnamed, &config(1, &[PolicyKind::Kv]));
    assert!(unnamed.turns.named.abs() < 1e-9);
    assert!(unnamed.policies[0].hit_rate.unwrap() < expected - 0.2);
}

#[test]
fn blocks_of_the_engine_are_cut_from_those_of_the_trace() {
    let trace = conversations(4, 3);
    let mut config = config(1, &[PolicyKind::Kv]);
    let whole = first(&trace, &config).hit_rate.unwrap();
    config.engine.block_tokens = 4;
    let cut = first(&trace, &config).hit_rate.unwrap();
    // Nothing but full blocks of the trace is shared, and smaller ones find a little more of the answers at most.
    assert!((whole..whole + 0.03).contains(&cut), "{whole} {cut}");
    config.engine.block_tokens = 64;
    let coarse = first(&trace, &config).hit_rate.unwrap();
    assert!(coarse < whole - 0.05, "{whole} {coarse}");
}

#[test]
fn in_a_closed_loop_a_turn_comes_when_its_user_has_read_the_answer() {
    let mut trace = of_one_user(answered(1, 3));
    trace[1..].iter_mut().for_each(|request| request.delay = Some(1500.0));
    let config = ReplayConfig { arrivals: Arrivals::AfterReply, speed: 2.0, ..config(1, &[PolicyKind::Kv]) };
    let served = serve(&trace, &config).unwrap();
    assert_eq!(served[0].arrived, Duration::ZERO);
    for pair in served.windows(2) {
        assert_eq!(pair[1].arrived, pair[0].ended.unwrap() + Duration::from_millis(750));
    }
}

#[test]
fn without_a_delay_users_think_for_what_an_idle_worker_leaves_of_the_recorded_time() {
    let trace = of_one_user(answered(1, 3));
    let recorded = config(1, &[PolicyKind::Kv]);
    let open = serve(&trace, &recorded).unwrap();
    let closed = serve(&trace, &ReplayConfig { arrivals: Arrivals::AfterReply, ..recorded.clone() }).unwrap();
    // Nothing else runs, so replies come when they are taken to have come, but for cached blocks that are cut.
    for (open, closed) in open.iter().zip(&closed) {
        let apart = open.arrived.abs_diff(closed.arrived);
        assert!(apart < Duration::from_millis(10), "{open:?} {closed:?}");
    }
    // When turns are recorded faster than answers come, users do not think.
    let mut slow = ReplayConfig { arrivals: Arrivals::AfterReply, speed: 100.0, ..recorded };
    slow.policies = vec![PolicyKind::RoundRobin];
    let late = serve(&trace, &slow).unwrap();
    assert!(late.windows(2).all(|pair| pair[1].arrived >= pair[0].ended.unwrap()));
}

#[test]
fn a_rejected_turn_does_not_end_its_conversation() {
    let trace = of_one_user(vec![request(0.0, 20_000, 1, &[1]), request(10.0, 10, 1, &[2])]);
    let config = ReplayConfig { arrivals: Arrivals::AfterReply, ..config(1, &[PolicyKind::Kv]) };
    let report = replayed(&trace, &config);
    assert_eq!((report.policies[0].completed, report.policies[0].rejected), (1, 1));
}

#[test]
fn a_request_is_at_its_worker_after_the_request_time() {
    let trace = [request(0.0, 32, 4, &[1, 2])];
    let mut config = config(1, &[PolicyKind::Kv]);
    let near = serve(&trace, &config).unwrap()[0];
    config.engine.request_time = Duration::from_millis(30);
    let far = serve(&trace, &config).unwrap()[0];
    for (near, far) in [(near.first_token, far.first_token), (near.ended, far.ended)] {
        assert_eq!(near.unwrap() + Duration::from_millis(30), far.unwrap());
    }
}

#[test]
fn lost_events_make_a_worker_partial_and_cost_what_was_known() {
    let trace = conversations(40, 5);
    let whole = first(&trace, &config(4, &[PolicyKind::Kv]));
    let mut lossy = config(4, &[PolicyKind::Kv]);
    lossy.events.loss = 0.05;
    let lossy = first(&trace, &lossy);
    assert_eq!(whole.lost_batches, 0);
    assert!(lossy.lost_batches > 10, "{lossy:?}");
    assert!(lossy.known_hit_rate.unwrap() < whole.known_hit_rate.unwrap() - 0.05, "{lossy:?}");
    assert_eq!(lossy.completed, whole.completed);
    let mut deaf = config(4, &[PolicyKind::Kv]);
    deaf.events.loss = 1.0;
    let deaf = first(&trace, &deaf);
    // What was just sent is expected where it went, for a while.
    assert!(deaf.known_hit_rate.unwrap() < lossy.known_hit_rate.unwrap(), "{deaf:?}");
}

#[test]
fn late_events_are_known_late() {
    let trace = conversations(20, 4);
    let mut config = config(2, &[PolicyKind::Kv]);
    let prompt = first(&trace, &config);
    config.events.delay = Duration::from_secs(3600);
    // So that nothing but events says what a worker holds.
    config.board.predicted_max = 0;
    let late = first(&trace, &config);
    assert!(late.known_hit_rate.unwrap().abs() < 1e-9 && prompt.known_hit_rate.unwrap() > 0.5, "{late:?}");
    config.events = EventPath { delay: Duration::ZERO, jitter: Duration::from_secs(3), loss: 0.0 };
    let uneven = first(&trace, &config);
    assert!(
        (late.known_hit_rate.unwrap()..prompt.known_hit_rate.unwrap())
            .contains(&uneven.known_hit_rate.unwrap()),
        "{uneven:?}"
    );
}

#[test]
fn sessions_find_their_worker_where_the_index_does_not_say_what_it_holds() {
    // Not a multiple of the workers: no conversation meets its worker again by mere counting.
    let mut trace = conversations(13, 5);
    for (index, request) in trace.iter_mut().enumerate() {
        request.session_id = Some((index % 13).to_string());
    }
    let mut blind = config(4, &[PolicyKind::RoundRobin]);
    blind.events.loss = 1.0;
    blind.partial_workers = 4;
    let apart = first(&trace, &blind).hit_rate.unwrap();
    blind.session_affinity = true;
    let together = first(&trace, &blind).hit_rate.unwrap();
    assert!(together > apart + 0.2, "{apart} {together}");
}

#[test]
fn members_beyond_mooncakes_are_read() {
    let line = r#"{"timestamp": 5, "input_length": 20, "output_length": 9, "hash_ids": [1], "output_hash_ids": [2],
        "session_id": "a", "delay": 12.5, "ttft_ms": 3}"#;
    let read: TraceRequest = serde_json::from_str(line).unwrap();
    let expected = TraceRequest {
        output_hash_ids: Some(vec![2]),
        session_id: Some("a".to_owned()),
        delay: Some(12.5),
        ..request(5.0, 20, 9, &[1])
    };
    assert_eq!(read, expected);
}
