use std::time::Duration;

use tokio::time::Instant;

use super::SteadyWindow;
use crate::config::{Api, ArrivalProcess, Load, Stop};
use crate::report::Report;
use crate::testing::{Answer, STREAM, TWO_TOKENS, config, run_in_memory};

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 0.02 * expected, "{found} for {expected}");
}

/// Four clients whose first replies take a second, the later ones 100 ms.
async fn four_clients(stop: Stop, stream: bool) -> Report {
    let mut config = config(Api::Generate, stream);
    config.load = Load::Closed { concurrency: 4, stop };
    run_in_memory(&config, move |asked| {
        let ms = if asked.number < 4 { 1000 } else { 100 };
        let not_before = Some(Instant::now() + Duration::from_millis(ms));
        let answer = if stream { Answer::events(&STREAM) } else { Answer::json(TWO_TOKENS) };
        Answer { not_before, ..answer }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_is_steady_from_the_last_first_reply_to_the_first_client_that_is_done() {
    for stream in [false, true] {
        let report = four_clients(Stop::Requests(44), stream).await;
        near(report.requests_per_s, 22.0);
        let SteadyWindow {
            from_s, to_s, due, succeeded, requests_per_s, output_tokens_per_s, e2e_ms, ..
        } = report.steady.unwrap();
        near(from_s, 1.0);
        near(to_s, 2.0);
        near(requests_per_s, 40.0);
        near(output_tokens_per_s, 80.0);
        assert!((37..=40).contains(&due) && (37..=40).contains(&succeeded), "{due} {succeeded}");
        near(e2e_ms.unwrap().max, 100.0);
        near(report.e2e_ms.unwrap().max, 1000.0);
        assert_eq!(report.steady.unwrap().ttft_ms.is_some(), stream);
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_with_a_deadline_is_steady_until_the_deadline() {
    let steady = four_clients(Stop::Time(Duration::from_millis(1950)), false).await.steady.unwrap();
    near(steady.from_s, 1.0);
    near(steady.to_s, 2.0);
}

#[tokio::test(start_paused = true)]
async fn a_run_in_which_each_client_sends_once_is_never_steady() {
    assert_eq!(four_clients(Stop::Requests(4), false).await.steady, None);
    assert_eq!(four_clients(Stop::Requests(3), false).await.steady, None);
}

/// Ten requests per second for ten seconds, each of which takes this long.
async fn open_loop(reply: Duration) -> Report {
    let mut config = config(Api::Generate, false);
    config.load = Load::Open {
        rate_per_s: 10.0,
        arrivals: ArrivalProcess::Constant,
        duration: Duration::from_secs(10),
        in_flight_max: 1000,
    };
    run_in_memory(&config, move |_| {
        let not_before = Some(Instant::now() + reply);
        Answer { not_before, ..Answer::json(TWO_TOKENS) }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn an_open_loop_is_steady_from_the_end_of_its_first_request_to_the_end_of_its_schedule() {
    let report = open_loop(Duration::from_millis(2050)).await;
    let steady = report.steady.unwrap();
    near(steady.from_s, 2.05);
    near(steady.to_s, 10.0);
    near(steady.requests_per_s, 10.0);
    assert_eq!((steady.due, report.requests.succeeded), (79, 100));
    assert!(report.requests_per_s < 8.5, "the tail is in the whole run: {report}");
}

#[tokio::test(start_paused = true)]
async fn an_open_loop_whose_first_request_outlasts_it_is_never_steady() {
    assert_eq!(open_loop(Duration::from_secs(11)).await.steady, None);
}
