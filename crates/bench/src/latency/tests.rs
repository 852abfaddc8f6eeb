//! One request after another, written as the moments of its events.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use super::{Latencies, arrivals, gaps};
use crate::caller::{Call, Output};
use crate::failure::{Failure, FailureKind};
use crate::times::Sample;

fn ms(time: Duration) -> u128 {
    time.as_millis()
}

fn shown(sample: Sample) -> String {
    match sample {
        Sample::Known(time) => format!("{}", ms(time)),
        Sample::AtLeast(time) => format!(">{}", ms(time)),
    }
}

/// When an event came, in milliseconds, and how many ids it carried.
type Event = (u64, Option<u32>);

/// Whether it streams, its events, its end in milliseconds, the tokens of a right reply, and what is found.
type Row<'a> = (bool, &'a [Event], u64, Option<u32>, &'a str);

/// A request that was due at 0 and asked for 8 tokens. `events` are moments in milliseconds with the ids they carried.
fn shown_call(stream: bool, events: &[Event], end_ms: u64, tokens: Option<u32>) -> String {
    let due = Instant::now();
    let outputs = events.iter().map(|(at, tokens)| {
        let at = due + Duration::from_millis(*at);
        Output { at, tokens: *tokens, lag_micros: 0 }
    });
    let call = Call {
        prompt_tokens: 4,
        wanted_tokens: 8,
        stream,
        outputs: outputs.collect(),
        ended: due + Duration::from_millis(end_ms),
        read_lag: Duration::ZERO,
        result: tokens.ok_or_else(|| Failure::new(FailureKind::Timeout, "")),
        ids: Vec::new(),
    };
    let Latencies { ttft, tpot, e2e, gap_max } = Latencies::of(due, &call);
    let option = |sample: Option<Sample>| sample.map_or("-".to_owned(), shown);
    let mut text = format!("ttft {} tpot {} e2e {}", option(ttft), option(tpot), shown(e2e));
    write!(text, " gap {}|gaps", gap_max.map_or("-".to_owned(), |gap| ms(gap).to_string())).unwrap();
    for (gap, tokens) in gaps(&call) {
        write!(text, " {}/{}", shown(gap), tokens.map_or("?".to_owned(), |tokens| tokens.to_string()))
            .unwrap();
    }
    text += "|tokens";
    for (at, tokens) in arrivals(&call) {
        write!(text, " {tokens}@{}", ms(at - due)).unwrap();
    }
    text
}

#[test]
fn a_request_has_known_times_and_a_failed_one_took_at_least_as_long_as_it_lasted() {
    let eight: Vec<_> = (1..=8).map(|at| (10 * at, None)).collect();
    let table: [Row<'_>; 11] = [
        (false, &[], 90, Some(8), "ttft - tpot - e2e 90 gap -|gaps|tokens 8@90"),
        (
            true,
            &[(20, Some(1)), (30, Some(1)), (90, Some(6))],
            95,
            Some(8),
            "ttft 20 tpot 10 e2e 95 gap 60|gaps 10/1 60/6|tokens 1@20 1@30 6@90",
        ),
        (true, &[(20, Some(8))], 95, Some(8), "ttft 20 tpot 0 e2e 95 gap -|gaps|tokens 8@20"),
        (true, &[(20, Some(1))], 20, Some(1), "ttft 20 tpot - e2e 20 gap -|gaps|tokens 1@20"),
        // Without ids events carry one token each or an unknown number.
        (
            true,
            &eight,
            95,
            Some(8),
            "ttft 10 tpot 10 e2e 95 gap 10|gaps 10/1 10/1 10/1 10/1 10/1 10/1 10/1|\
             tokens 1@10 1@20 1@30 1@40 1@50 1@60 1@70 1@80",
        ),
        (
            true,
            &[(20, None), (30, None), (90, None)],
            95,
            Some(8),
            "ttft 20 tpot 10 e2e 95 gap 60|gaps 10/? 60/?|tokens 2@20 3@30 3@90",
        ),
        // Failures; the last one came after the last token and waited for no further one.
        (false, &[], 500, None, "ttft - tpot - e2e >500 gap -|gaps|tokens"),
        (true, &[], 500, None, "ttft >500 tpot - e2e >500 gap -|gaps|tokens"),
        (
            true,
            &[(20, Some(1)), (40, Some(2))],
            740,
            None,
            "ttft 20 tpot >102 e2e >740 gap 20|gaps 20/2 >700/1|tokens",
        ),
        (
            true,
            &[(20, None), (40, None)],
            740,
            None,
            "ttft 20 tpot >102 e2e >740 gap 20|gaps 20/? >700/?|tokens",
        ),
        (
            true,
            &[(20, Some(1)), (40, Some(7))],
            740,
            None,
            "ttft 20 tpot >102 e2e >740 gap 20|gaps 20/7|tokens",
        ),
    ];
    for (stream, events, end_ms, tokens, expected) in table {
        assert_eq!(shown_call(stream, events, end_ms, tokens), expected, "{events:?}");
    }
}
