use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use serde_json::Value;
use tito_engine::fake::{last, tokens};
use tito_test_support::http::{check_envelope, get_text, post_text};
use tito_types::{EngineError, WorkerId};

use crate::testing::engines::{Once, held, quick, refusing, scripted};
use crate::testing::toy::PANIC;
use crate::testing::{bytes_of, check_metrics, post, setup, setup_with};

const STREAM: &str = r#"{"stream":true}"#;
const GENERATE: &str = "/inference/v1/generate";

#[tokio::test]
async fn a_stream_says_what_it_is_and_ends_with_done() {
    let response = setup(quick()).await.ask(post(GENERATE, STREAM)).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    assert!(response.headers().contains_key("x-request-id"));
    assert!(!response.headers().contains_key("content-length"));
    let text = String::from_utf8(bytes_of(response).await).unwrap();
    assert_eq!(text, "data: [7]\n\ndata: [8]\n\ndata: [DONE]\n\n");
}

#[tokio::test]
async fn a_failure_before_the_first_delta_has_a_status() {
    let setup = setup(refusing(EngineError::Overloaded("busy".to_owned()))).await;
    assert_eq!(setup.refusal(post(GENERATE, STREAM)).await, (429, "overloaded".to_owned()));
}

#[tokio::test]
async fn a_failure_midway_is_one_error_event_then_done() {
    let traceback = "Traceback:\n  line 1\n  line 2".to_owned();
    let (worker, seven) = (WorkerId::new("w1"), || Ok(tokens(0, &[7])));
    for (items, code) in [
        (vec![seven(), Err(EngineError::Engine(worker.clone(), traceback)), seven()], "worker_failed"),
        (vec![seven(), Err(EngineError::Lost(worker, "reset".to_owned())), seven()], "worker_lost"),
        // The format itself chokes on this one.
        (vec![seven(), Ok(tokens(0, &[u32::MAX])), seven()], "worker_protocol"),
        // A stream that just stops is an error, not an empty success.
        (vec![], "worker_lost"),
    ] {
        let before = if items.is_empty() { "" } else { "data: [7]\n\n" };
        let setup = setup(scripted(items)).await;
        let response = setup.ask(post(GENERATE, STREAM)).await;
        assert_eq!(response.status(), 200);
        let text = String::from_utf8(bytes_of(response).await).unwrap();
        let failed = text.strip_prefix(before).and_then(|failed| failed.strip_prefix("data: "));
        let failed = failed.and_then(|failed| failed.strip_suffix("\n\ndata: [DONE]\n\n")).expect(&text);
        let body: Value = serde_json::from_str(failed).expect("one event");
        assert_eq!(check_envelope("a failure", &body)["code"], code);
        let line =
            format!(r#"tito_frontend_requests_total{{route="generate",status="2xx",code="{code}"}} 1"#);
        check_metrics(&setup.registry, &[&line]);
    }
}

#[tokio::test]
async fn a_bug_midway_breaks_the_stream_off_and_is_counted() {
    let running = setup(scripted(vec![Ok(tokens(0, &[PANIC]))])).await.run();
    let mut client = running.client(post_text(GENERATE, STREAM)).await;
    let all = String::from_utf8(client.rest().await).unwrap();
    assert!(!all.ends_with("0\r\n\r\n"), "the end must not look like one: {all}");
    running.wait_for_metric("tito_runtime_task_panics_total 1").await;
    let counted = r#"tito_frontend_requests_total{route="generate",status="5xx",code="internal"} 1"#;
    running.wait_for_metric(counted).await;
    assert_eq!(running.reply(get_text("/live")).await.status, 200);
}

#[tokio::test]
async fn deltas_that_are_ready_together_leave_in_one_write() {
    let (engine, mut requests) = held();
    let setup = setup(engine).await;
    let mut response = setup.ask(post(GENERATE, STREAM)).await;
    let accepted = requests.recv().await.unwrap();
    for token in 1..=3 {
        accepted.deltas.send(Ok(tokens(0, &[token]))).unwrap();
    }
    let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(frame, "data: [1]\n\ndata: [2]\n\ndata: [3]\n\n");
    accepted.deltas.send(Ok(last(0, &[4], 4))).unwrap();
    let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(frame, "data: [4]\n\ndata: [DONE]\n\n");
    assert!(response.body_mut().frame().await.is_none());
}

#[tokio::test]
async fn one_write_is_bounded_however_much_is_ready() {
    let (engine, taken, dropped) = crate::testing::engines::endless(100);
    let setup = setup(engine).await;
    let mut response = setup.ask(post(GENERATE, STREAM)).await;
    let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!((32 << 10..40 << 10).contains(&frame.len()), "{}", frame.len());
    let first = taken.load(Ordering::Relaxed);
    assert!(first < 100, "{first}");
    drop(response);
    dropped.await.expect_err("the guard is dropped, not sent");
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_by_comments_when_asked() {
    let (engine, mut requests) = held();
    let interval = Duration::from_secs(5);
    let setup = setup_with(engine, |config| config.stream_ping = Some(interval)).await.unwrap();
    let mut response = setup.ask(post(GENERATE, STREAM)).await;
    let accepted = requests.recv().await.unwrap();
    let mut next = async || response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    let started = tokio::time::Instant::now();
    assert_eq!(next().await, ": ping\n\n");
    assert_eq!(next().await, ": ping\n\n");
    assert_eq!(started.elapsed(), interval * 2);
    tokio::time::advance(interval / 2).await;
    accepted.deltas.send(Ok(tokens(0, &[1]))).unwrap();
    assert_eq!(next().await, "data: [1]\n\n");
    assert_eq!(next().await, ": ping\n\n");
    assert_eq!(started.elapsed(), interval * 7 / 2, "counted from the last write");
}

#[tokio::test(start_paused = true)]
async fn the_time_to_the_first_token_and_between_tokens_is_measured() {
    let pause = Duration::from_secs(2);
    let items = stream::iter([Ok(tokens(0, &[1])), Ok(tokens(0, &[2, 3])), Ok(last(0, &[4], 4))]);
    let paced = items.then(move |item| async move {
        tokio::time::sleep(pause).await;
        item
    });
    let setup = setup(Once::new(paced)).await;
    let response = setup.ask(post(GENERATE, STREAM)).await;
    bytes_of(response).await;
    check_metrics(
        &setup.registry,
        &[
            r#"tito_frontend_time_to_first_token_seconds_sum{route="generate"} 2.0"#,
            // Two seconds over two tokens, then two over one.
            r#"tito_frontend_inter_token_seconds_sum{route="generate"} 3.0"#,
            r#"tito_frontend_inter_token_seconds_count{route="generate"} 2"#,
            r#"tito_frontend_request_duration_seconds_sum{route="generate"} 6.0"#,
        ],
    );
}
