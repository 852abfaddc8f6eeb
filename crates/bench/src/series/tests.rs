use std::time::Duration;

use expect_test::{Expect, expect};
use tokio::time::Instant;

use super::{ROWS_MAX, Recorder, Series};
use crate::caller::{Call, Output};
use crate::config::{Api, ArrivalProcess, Load};
use crate::failure::{Failure, FailureKind};
use crate::latency::Latencies;
use crate::testing::{Answer, STREAM, config, run_in_memory};

/// A stream of two tokens, sent, with its first and second output and its end at these milliseconds.
fn record(recorder: &mut Recorder, begin: Instant, [sent, one, two, end]: [u64; 4], right: bool) {
    let at = |ms| begin + Duration::from_millis(ms);
    let outputs = [one, two].map(|ms| Output { at: at(ms), tokens: Some(1), lag_micros: 0 }).to_vec();
    let call = Call {
        prompt_tokens: 4,
        wanted_tokens: 2,
        stream: true,
        outputs,
        ended: at(end),
        read_lag: Duration::ZERO,
        result: if right { Ok(2) } else { Err(Failure::new(FailureKind::Timeout, "")) },
        ids: Vec::new(),
    };
    recorder.record(at(sent), &Latencies::of(at(sent), &call), &call);
}

fn shown(series: &Series) -> String {
    let lines = series.intervals.iter().map(|interval| {
        let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.0}"));
        format!(
            "{}: sent {} ok {} failed {} shed {} in flight {} tokens {} ttft {} e2e {} {}\n",
            interval.at_s,
            interval.sent,
            interval.succeeded,
            interval.failed,
            interval.shed,
            interval.in_flight,
            interval.output_tokens,
            ms(interval.ttft_ms_p99),
            ms(interval.e2e_ms_p50),
            ms(interval.e2e_ms_p99)
        )
    });
    lines.collect()
}

#[track_caller]
fn check(series: &Series, expect: &Expect) {
    expect.assert_eq(&shown(series));
}

#[test]
fn what_came_is_in_the_interval_in_which_it_came() {
    let begin = Instant::now();
    let mut recorder = Recorder::new(begin, Duration::from_secs(1));
    record(&mut recorder, begin, [100, 900, 1100, 1200], true);
    record(&mut recorder, begin, [200, 300, 3400, 3500], true);
    record(&mut recorder, begin, [1000, 1100, 1200, 2000], false);
    recorder.record_shed(begin + Duration::from_millis(2500), true);
    check(
        &recorder.finish(),
        &expect![[r"
        0: sent 2 ok 0 failed 0 shed 0 in flight 2 tokens 2 ttft 803 e2e - -
        1: sent 1 ok 1 failed 0 shed 0 in flight 2 tokens 1 ttft 100 e2e 1106 1106
        2: sent 0 ok 0 failed 1 shed 1 in flight 1 tokens 0 ttft - e2e - -
        3: sent 0 ok 1 failed 0 shed 0 in flight 0 tokens 1 ttft - e2e 3310 3310
    "]],
    );
}

#[test]
fn a_percentile_that_requests_which_failed_could_raise_is_not_given() {
    let begin = Instant::now();
    // So many of a hundred requests fail after 30 ms, with their first output at 10 ms.
    for (failed, shed, expect) in [
        (0, 0, "ttft 10 e2e 30 30\n"),
        (10, 0, "ttft 10 e2e 30 -\n"),
        (60, 0, "ttft 10 e2e - -\n"),
        (0, 10, "ttft - e2e 30 -\n"),
        (0, 150, "ttft - e2e - -\n"),
    ] {
        let mut recorder = Recorder::new(begin, Duration::from_secs(1));
        (0..100).for_each(|number| record(&mut recorder, begin, [0, 10, 20, 30], number >= failed));
        (0..shed).for_each(|_| recorder.record_shed(begin, true));
        let shown = shown(&recorder.finish());
        assert!(shown.ends_with(expect), "{failed} failed, {shed} shed: {shown}");
    }
}

#[test]
fn a_long_run_gets_longer_intervals_and_loses_nothing() {
    let begin = Instant::now();
    let mut recorder = Recorder::new(begin, Duration::from_secs(1));
    for second in 0..1900 {
        let at = second * 1000;
        record(&mut recorder, begin, [at, at + 10, at + 20, at + 30], second % 10 != 0);
    }
    let series = recorder.finish();
    assert!((series.interval_s - 4.0).abs() < 1e-9 && series.intervals.len() == 475, "{series:?}");
    assert!(series.intervals.len() <= ROWS_MAX);
    let sum = |count: fn(&super::Interval) -> u64| series.intervals.iter().map(count).sum::<u64>();
    assert_eq!(
        (sum(|row| row.sent), sum(|row| row.succeeded), sum(|row| row.failed), sum(|row| row.output_tokens)),
        (1900, 1710, 190, 3420)
    );
    assert!(series.intervals.iter().all(|row| row.in_flight == 0 && row.e2e_ms_p50.is_some()), "{series:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_has_a_row_for_each_second() {
    let mut config = config(Api::Generate, true);
    config.load = Load::Open {
        rate_per_s: 10.0,
        arrivals: ArrivalProcess::Constant,
        duration: Duration::from_secs(3),
        in_flight_max: 1000,
    };
    let report =
        run_in_memory(&config, |_| Answer { gap: Duration::from_millis(400), ..Answer::events(&STREAM) })
            .await;
    check(
        &report.series,
        &expect![[r"
        0: sent 10 ok 0 failed 0 shed 0 in flight 10 tokens 8 ttft 401 e2e - -
        1: sent 10 ok 4 failed 0 shed 0 in flight 16 tokens 20 ttft 401 e2e 1606 1606
        2: sent 10 ok 10 failed 0 shed 0 in flight 16 tokens 20 ttft 401 e2e 1606 1606
        3: sent 0 ok 10 failed 0 shed 0 in flight 6 tokens 12 ttft 401 e2e 1606 1606
        4: sent 0 ok 6 failed 0 shed 0 in flight 0 tokens 0 ttft - e2e 1606 1606
    "]],
    );
}
