//! What is said of requests that no engine can take, and where nothing bounds a hit rate.

use tito_policy::PolicyKind;

use super::{config, first, of_one_user, replayed, request};
use crate::Arrivals;

/// Tokens of the engine's KV room in these tests.
const ROOM: u32 = 64;

#[test]
fn a_request_is_served_whole_or_counted_as_rejected() {
    let mut config = config(1, &[PolicyKind::Kv]);
    config.engine.capacity_tokens = u64::from(ROOM) + 5;
    for (prompt, output, served) in [
        (10, ROOM - 10, true),
        (10, ROOM - 9, false),
        (10, 1000, false),
        (ROOM - 1, 1, true),
        (ROOM - 1, 0, true),
        (ROOM, 0, false),
        (ROOM, 1, false),
        (20_000, 1, false),
    ] {
        let trace = [request(0.0, prompt, output, &[1]), request(0.0, 10, 1, &[2])];
        let report = first(&trace, &config);
        let expected = if served { (2, 0) } else { (1, 1) };
        assert_eq!((report.completed, report.rejected), expected, "{prompt} and {output} tokens");
    }
}

#[test]
fn shares_and_bounds_are_of_the_requests_that_were_served() {
    let ids = [1, 2];
    let trace = [request(0.0, 33, 1, &ids), request(9e3, 33, 1, &ids), request(18e3, 20_000, 1, &[3])];
    let report = replayed(&trace, &config(1, &[PolicyKind::Kv]));
    let kv = &report.policies[0];
    assert_eq!((kv.completed, kv.rejected), (2, 1));
    let shares =
        [kv.hit_rate, kv.known_hit_rate, kv.best.one_cache, kv.best.fleet, report.one_cache_hit_rate];
    for share in shares {
        assert!((share.unwrap() - 32.0 / 66.0).abs() < 1e-9, "{shares:?}");
    }
}

#[test]
fn where_nothing_is_served_there_are_no_numbers() {
    let trace = [request(0.0, 10, 20_000, &[1])];
    let report = replayed(&trace, &config(2, &[PolicyKind::Kv]));
    let kv = &report.policies[0];
    assert_eq!((kv.completed, kv.rejected), (0, 1));
    assert_eq!((kv.hit_rate, kv.known_hit_rate, kv.best.one_cache, kv.best.fleet), (None, None, None, None));
    assert_eq!((kv.wait, kv.ttft, kv.e2e, kv.seconds), (None, None, None, None));
    assert_eq!((kv.balance.prefill, kv.balance.requests), (None, None));
    assert!(kv.ttft_quantiles.is_empty());
}

#[test]
fn a_closed_loop_has_no_bounds() {
    let trace = of_one_user(vec![request(0.0, 33, 1, &[1, 2]), request(9e3, 49, 1, &[1, 2, 3])]);
    let config = crate::ReplayConfig { arrivals: Arrivals::AfterReply, ..config(1, &[PolicyKind::Kv]) };
    let report = replayed(&trace, &config);
    assert_eq!((report.one_cache_hit_rate, report.policies[0].best.fleet), (None, None));
    assert_eq!((report.policies[0].best.one_cache, report.policies[0].completed), (None, 2));
}

#[test]
fn a_replay_lasts_until_its_last_token_whatever_the_index_learns_later() {
    let trace = [request(0.0, 33, 4, &[1, 2])];
    let mut config = config(1, &[PolicyKind::Kv]);
    config.events.delay = std::time::Duration::from_secs(3600);
    let kv = first(&trace, &config);
    assert_eq!(kv.seconds, kv.e2e.map(|e2e| e2e.max));
}
