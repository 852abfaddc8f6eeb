//! What failures do to the percentiles, over the scripted server on a paused clock.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::{Api, ArrivalProcess, BenchConfig, Load, Stop};
use crate::percentiles::Percentiles;
use crate::report::Report;
use crate::testing::{Answer, Close, STREAM, TWO_TOKENS, config, run_in_memory};

/// A hundred requests over one connection, each with at most two seconds.
fn hundred(stream: bool) -> BenchConfig {
    let mut config = config(Api::Generate, stream);
    config.load = Load::Closed { concurrency: 1, stop: Stop::Requests(100) };
    config.limits.request_timeout = Duration::from_secs(2);
    config
}

/// Names of the lower bounds, as JSON has them.
fn lower_bounds(times: Option<Percentiles>) -> String {
    serde_json::to_string(&times.unwrap().lower_bounds).unwrap()
}

/// Runs with this answer to each twentieth request and a right one to the others.
async fn run_with(config: &BenchConfig, bad: Answer) -> Report {
    let right = if config.workload.stream { Answer::events(&STREAM) } else { Answer::json(TWO_TOKENS) };
    let gap = Duration::from_millis(10);
    let right = Answer { gap, ..right };
    run_in_memory(config, move |asked| if asked.number % 20 == 7 { bad.clone() } else { right.clone() }).await
}

#[tokio::test(start_paused = true)]
async fn requests_that_time_out_are_in_the_percentiles_with_the_time_they_were_waited_for() {
    let late = Answer { gap: Duration::from_secs(3), ..Answer::json(TWO_TOKENS) };
    let report = run_with(&hundred(false), late).await;
    assert_eq!((report.requests.succeeded, report.requests.failed), (95, 5));
    let e2e = report.e2e_ms.unwrap();
    assert_eq!((e2e.count, e2e.censored), (100, 5));
    assert_eq!(lower_bounds(report.e2e_ms), r#"["mean","p99","p99_9","max"]"#);
    assert!((1999.0..=2005.0).contains(&e2e.p99), "{e2e:?}");
    assert!((9.0..=13.0).contains(&e2e.p50), "what did not fail is as fast as before: {e2e:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_that_fail_at_once_do_not_make_a_server_fast() {
    let report = run_with(&hundred(false), Answer { status: 503, ..Answer::json("busy") }).await;
    assert_eq!((report.requests.failed, report.e2e_ms.unwrap().censored), (5, 5));
    assert!(lower_bounds(report.e2e_ms).contains(r#""p99","p99_9","max""#), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stalls_counts_its_first_token_and_the_gap_in_which_it_failed() {
    let stalled =
        Answer { gap: Duration::from_millis(900), ..Answer::events(&[STREAM[0], ":\n", ":\n", ":\n"]) };
    let report = run_with(&hundred(true), stalled).await;
    assert_eq!(report.requests.failed, 5);
    let (ttft, itl) = (report.ttft_ms.unwrap(), report.itl_event_ms.unwrap());
    assert_eq!((ttft.count, ttft.censored), (100, 0), "each first token was seen");
    assert_eq!((itl.count, itl.censored), (100, 5));
    assert!((1095.0..=1105.0).contains(&itl.max), "from the first token to the time-out: {itl:?}");
    assert_eq!((report.itl_ms.unwrap().censored, report.tpot_ms.unwrap().censored), (5, 5));
    assert_eq!(report.e2e_ms.unwrap().censored, 5);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_lost_before_its_first_token_has_no_known_ttft() {
    let lost = Answer { close: Some(Close::BeforeEnd), ..Answer::events(&[": hello\n\n"]) };
    let report = run_with(&hundred(true), lost).await;
    let (ttft, itl) = (report.ttft_ms.unwrap(), report.itl_ms.unwrap());
    assert_eq!((ttft.count, ttft.censored), (100, 5));
    assert_eq!((itl.count, itl.censored), (95, 0), "a gap that never began is not counted");
}

#[tokio::test(start_paused = true)]
async fn an_arrival_that_is_shed_might_have_waited_for_any_time() {
    let mut config = config(Api::Generate, true);
    config.load = Load::Open {
        rate_per_s: 100.0,
        arrivals: ArrivalProcess::Constant,
        duration: Duration::from_secs(1),
        in_flight_max: 1,
    };
    let begin = Instant::now();
    // The second request holds the only place for the rest of the first half second.
    let report = run_in_memory(&config, move |asked| {
        let not_before = (asked.number == 1).then(|| begin + Duration::from_millis(505));
        Answer { not_before, ..Answer::events(&STREAM) }
    })
    .await;
    let shed = report.requests.shed;
    assert!((45..=50).contains(&shed), "{report:?}");
    for times in [report.ttft_ms, report.e2e_ms] {
        assert_eq!((times.unwrap().count, times.unwrap().censored), (100, shed));
        assert_eq!(lower_bounds(times), r#"["mean","p90","p95","p99","p99_9","max"]"#);
    }
}
