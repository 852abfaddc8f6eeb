use std::time::Duration;

use tokio::time::Instant;

use super::Slo;
use crate::caller::{Call, Output};
use crate::failure::{Failure, FailureKind};
use crate::latency::Latencies;

#[track_caller]
fn parse(text: &str, expected: &str) {
    let found = text.parse::<Slo>().map_or_else(|error| error.to_string(), |slo| slo.to_string());
    assert_eq!(found, expected);
}

#[test]
fn limits_are_read_with_or_without_a_unit() {
    parse("ttft:500 e2el:2000", "ttft 500 ms, e2e 2000 ms");
    parse("ttft:0.5s,itl:50ms,tpot:30ms,e2e:1m", "ttft 500 ms, itl 50 ms, tpot 30 ms, e2e 60000 ms");
}

#[test]
fn a_list_that_is_no_list_of_limits_is_refused() {
    let wanted = "a list of limits such as `ttft:500ms itl:50ms tpot:30ms e2e:2s`, each at most once";
    for text in
        ["", "ttft", "ttft:", "ttft:-1", "ttft:0", "ttft:1h", "p99:5", "ttft:1 ttft:2", "e2e:1 e2el:2"]
    {
        parse(text, &format!("`{text}` is not {wanted}"));
    }
}

/// A right stream of three tokens at 100, 120 and 180 ms that ends at 200 ms.
fn call() -> (Latencies, Call) {
    let due = Instant::now();
    let at = |ms| due + Duration::from_millis(ms);
    let outputs = [100, 120, 180].map(|ms| Output { at: at(ms), tokens: Some(1), lag_micros: 0 }).to_vec();
    let call = Call {
        prompt_tokens: 4,
        wanted_tokens: 3,
        stream: true,
        outputs,
        ended: at(200),
        read_lag: Duration::ZERO,
        result: Ok(3),
        ids: Vec::new(),
    };
    (Latencies::of(due, &call), call)
}

#[test]
fn a_request_is_good_when_each_of_its_times_is_within_its_limit() {
    let (latencies, call) = call();
    let table = [
        ("ttft:100", true),
        ("ttft:99", false),
        ("itl:60", true),
        ("itl:59", false),
        ("tpot:40", true),
        ("tpot:39", false),
        ("e2e:200", true),
        ("e2e:199", false),
        ("ttft:100 itl:60 tpot:40 e2e:199", false),
    ];
    for (slo, good) in table {
        assert_eq!(slo.parse::<Slo>().unwrap().is_met(&latencies, &call), good, "{slo}");
    }
}

#[test]
fn a_failed_request_is_never_good() {
    let (_, call) = call();
    let failed = Call { result: Err(Failure::new(FailureKind::TokenCount, "")), ..call };
    let latencies = Latencies::of(failed.outputs[0].at, &failed);
    assert!(!"ttft:10s".parse::<Slo>().unwrap().is_met(&latencies, &failed));
}
