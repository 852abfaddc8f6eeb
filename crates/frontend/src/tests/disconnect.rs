use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tito_engine::fake::{last, tokens};
use tito_test_support::http::{get_text, post_text};
use tito_test_support::wait::wait_until;
use tower::ServiceExt;

use crate::Exit;
use crate::testing::engines::{endless, queueing, quick, scripted};
use crate::testing::{Running, is_dropped, metrics_text, post, run_held, run_with, setup};

const GENERATE: &str = "/inference/v1/generate";
const STREAM: &str = r#"{"stream":true}"#;

async fn check_gone(running: &Running, delivery: &str) {
    let gone = r#"tito_frontend_requests_total{route="generate",status="4xx",code="client_gone"} 1"#;
    running.wait_for_metric(gone).await;
    running.wait_for_metric(&format!(r#"tito_frontend_disconnects_total{{delivery="{delivery}"}} 1"#)).await;
    running.wait_for_metric(r#"tito_frontend_requests_in_flight{route="generate"} 0"#).await;
    running.wait_for_metric("tito_frontend_connections_open 0").await;
}

/// Sends `text`, waits until the engine has accepted a request, and leaves.
async fn leaves_while_running(text: String, delivery: &str, said: Option<u32>) {
    let (running, mut requests) = run_held().await;
    let mut client = running.client(text).await;
    let accepted = requests.recv().await.unwrap();
    if let Some(token) = said {
        accepted.deltas.send(Ok(tokens(0, &[token]))).unwrap();
        if delivery == "stream" {
            client.until(b"]\n\n").await;
        }
    }
    drop(client);
    is_dropped(accepted.dropped).await;
    check_gone(&running, delivery).await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_request_at_the_engine_at_once() {
    leaves_while_running(post_text(GENERATE, "{}"), "unary", None).await;
    leaves_while_running(post_text(GENERATE, "{}"), "unary", Some(7)).await;
    leaves_while_running(post_text(GENERATE, STREAM), "stream", None).await;
    leaves_while_running(post_text(GENERATE, STREAM), "stream", Some(7)).await;
    leaves_while_running(post_text(GENERATE, r#"{"prompts":[[1],[2]]}"#), "unary", None).await;
}

#[tokio::test]
async fn a_client_that_has_sent_more_before_it_leaves_is_missed_all_the_same() {
    let two = post_text(GENERATE, "{}") + &get_text("/live");
    leaves_while_running(two, "unary", None).await;
    leaves_while_running(post_text(GENERATE, STREAM) + "\r\n", "stream", None).await;
}

#[tokio::test]
async fn a_client_that_sends_far_ahead_of_its_reply_and_leaves_is_missed_at_once() {
    // Within what is read ahead, and beyond it.
    for bytes in [20 << 10, 64 << 10] {
        for (body, delivery) in [("{}", "unary"), (STREAM, "stream")] {
            let (running, mut requests) = run_held().await;
            let mut client = running.client(post_text(GENERATE, body)).await;
            let accepted = requests.recv().await.unwrap();
            client.try_send(get_text("/live").repeat(bytes / get_text("/live").len())).await;
            drop(client);
            is_dropped(accepted.dropped).await;
            check_gone(&running, delivery).await;
        }
    }
}

#[tokio::test]
async fn a_client_that_sends_on_and_on_ahead_of_its_reply_is_disconnected() {
    let (running, mut requests) = run_held().await;
    let mut client = running.client(post_text(GENERATE, "{}")).await;
    let accepted = requests.recv().await.unwrap();
    client.try_send("x".repeat(1 << 20)).await;
    is_dropped(accepted.dropped).await;
    assert!(client.rest().await.is_empty());
    check_gone(&running, "unary").await;
}

#[tokio::test]
async fn requests_sent_within_the_limit_ahead_are_all_answered() {
    const REQUESTS: usize = 100;
    let (running, mut requests) = run_held().await;
    let mut client = running.client(post_text(GENERATE, "{}")).await;
    let accepted = requests.recv().await.unwrap();
    for _ in 0..REQUESTS {
        client.send(post_text(GENERATE, &format!("{{{}}}", " ".repeat(20)))).await;
        tokio::task::yield_now().await;
    }
    accepted.deltas.send(Ok(last(0, &[1], 1))).unwrap();
    assert_eq!(client.reply().await.status, 200);
    for _ in 0..REQUESTS {
        let accepted = requests.recv().await.unwrap();
        accepted.deltas.send(Ok(last(0, &[1], 1))).unwrap();
        assert_eq!(client.reply().await.status, 200);
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_its_request_is_queued_ends_it_there() {
    for (body, delivery) in [("{}", "unary"), (STREAM, "stream")] {
        let (engine, mut waiting) = queueing();
        let running = setup(engine).await.run();
        let client = running.client(post_text(GENERATE, body)).await;
        let queued = waiting.recv().await.unwrap();
        drop(client);
        is_dropped(queued).await;
        check_gone(&running, delivery).await;
    }
}

#[tokio::test]
async fn a_reply_that_is_ready_when_the_client_leaves_still_counts() {
    let setup = setup(quick()).await;
    let mut handling = Box::pin(setup.router().oneshot(post(GENERATE, "{}")));
    // The handler has started the work, which has not run yet; then the client is gone.
    assert!((&mut handling).now_or_never().is_none());
    drop(handling);
    let ok = r#"tito_frontend_requests_total{route="generate",status="2xx",code="ok"} 1"#;
    wait_until("completion", || metrics_text(&setup.registry).contains(ok)).await;
    assert!(!metrics_text(&setup.registry).contains("client_gone"));
}

#[tokio::test]
async fn usage_up_to_the_loss_is_counted() {
    let (running, mut requests) = run_held().await;
    let mut client = running.client(post_text(GENERATE, STREAM)).await;
    let accepted = requests.recv().await.unwrap();
    accepted.deltas.send(Ok(tokens(0, &[1, 2, 3]))).unwrap();
    client.until(b"data: [1, 2, 3]\n\n").await;
    drop(client);
    running.wait_for_metric(r#"tito_frontend_output_tokens_total{route="generate"} 3"#).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_engine_back_and_is_dropped_in_time() {
    let (engine, taken, dropped) = endless(1_000);
    let running = run_with(engine, |config| config.timeouts.client_stall = Duration::from_millis(300)).await;
    let _client = running.client(post_text(GENERATE, STREAM)).await;
    is_dropped(dropped).await;
    running.wait_for_metric("tito_frontend_stalled_clients_total 1").await;
    check_gone(&running, "stream").await;
    // About 9 kB each: what the kernel's socket buffers take, and little more.
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken < 5_000, "{taken} deltas were taken for a client that reads nothing");
}

#[tokio::test]
async fn a_slow_client_gets_everything_as_long_as_it_reads() {
    const DELTAS: usize = 2_000;
    let items = (0..DELTAS).map(|_| Ok(tokens(0, &[1_000_000; 1_000]))).chain([Ok(last(0, &[], 1))]);
    let running = setup(scripted(items.collect())).await.run();
    let text = post_text(GENERATE, STREAM).replace("Host: t", "Host: t\r\nConnection: close");
    let mut client = running.client(text).await;
    let text = String::from_utf8(client.rest().await).unwrap();
    assert_eq!(text.matches("data: [1000000").count(), DELTAS);
    assert!(text.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{}", &text[text.len() - 40..]);
    running.trigger.fire("test");
    running.trigger.fire("test");
    assert_eq!(running.ended().await, Exit::Clean);
}
