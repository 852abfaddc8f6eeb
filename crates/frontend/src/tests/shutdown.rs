use std::time::Duration;

use tito_engine::fake::last;
use tito_runtime::Stage;
use tito_test_support::http::{Raw, get_text, post_text};
use tokio::net::TcpStream;

use crate::Exit;
use crate::testing::engines::{Accepted, endless, quick};
use crate::testing::{Running, is_dropped, run_held, run_with, setup};

const GENERATE: &str = "/inference/v1/generate";

/// A frontend with a whole reply and a stream that its engine has accepted.
async fn two_in_flight() -> (Running, [(Raw, Accepted); 2]) {
    let (running, mut requests) = run_held().await;
    let unary = running.client(post_text(GENERATE, "{}")).await;
    let first = requests.recv().await.unwrap();
    let stream = running.client(post_text(GENERATE, r#"{"stream":true}"#)).await;
    let second = requests.recv().await.unwrap();
    (running, [(unary, first), (stream, second)])
}

#[tokio::test]
async fn unready_only_says_so() {
    let running = setup(quick()).await.run();
    assert_eq!(running.reply(get_text("/ready")).await.status, 200);
    running.next_stage(Stage::Unready).await;
    let ready = running.reply(get_text("/ready")).await;
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains(r#""reasons":["draining"]"#), "{}", ready.text());
    assert_eq!(running.reply(get_text("/live")).await.status, 200);
    assert_eq!(running.reply(post_text(GENERATE, "{}")).await.status, 200);
}

#[tokio::test]
async fn draining_refuses_new_work_and_finishes_the_old() {
    let (running, [(mut unary, first), (mut stream, second)]) = two_in_flight().await;
    let mut idle = running.client(get_text("/live")).await;
    assert_eq!(idle.reply().await.status, 200);

    running.next_stage(Stage::Unready).await;
    running.next_stage(Stage::Draining).await;
    assert!(idle.rest().await.is_empty(), "an idle connection is closed");
    let refused = running.reply(post_text(GENERATE, "{}")).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("x-should-retry"), Some("true"));
    assert_eq!(refused.header("connection"), Some("close"));
    assert!(refused.text().contains(r#""code":"draining""#), "{}", refused.text());
    let mut probe = running.client(get_text("/live")).await;
    assert_eq!(probe.reply().await.status, 200, "liveness holds while draining");
    assert!(probe.rest().await.is_empty(), "and its connection is closed");
    assert!(!running.exit.is_finished());

    first.deltas.send(Ok(last(0, &[1], 1))).unwrap();
    let reply = unary.reply().await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("connection"), Some("close"));
    assert!(unary.rest().await.is_empty());
    assert!(!running.exit.is_finished(), "the stream is still open");
    second.deltas.send(Ok(last(0, &[2], 1))).unwrap();
    let rest = String::from_utf8(stream.rest().await).unwrap();
    assert!(rest.contains("data: [2]\n\ndata: [DONE]\n\n"), "{rest}");
    let addr = running.addr;
    assert_eq!(running.ended().await, Exit::Clean);
    TcpStream::connect(addr).await.expect_err("the socket is closed");
}

#[tokio::test]
async fn with_nothing_in_flight_the_drain_is_over_at_once() {
    let running = setup(quick()).await.run();
    // Connected and silent: not worth waiting for.
    let mut silent = Raw::connect(running.addr).await;
    let mut idle = running.client(post_text(GENERATE, "{}")).await;
    assert_eq!(idle.reply().await.status, 200);
    running.next_stage(Stage::Unready).await;
    running.next_stage(Stage::Draining).await;
    assert_eq!(running.ended().await, Exit::Clean);
    assert!(silent.rest().await.is_empty());
}

#[tokio::test]
async fn forced_drops_what_is_left_and_counts_it() {
    let (running, [(mut unary, first), (_stream, second)]) = two_in_flight().await;
    running.next_stage(Stage::Unready).await;
    running.next_stage(Stage::Draining).await;
    assert!(!running.exit.is_finished());
    running.next_stage(Stage::Forced).await;
    for dropped in [first.dropped, second.dropped] {
        is_dropped(dropped).await;
    }
    let forced = r#"tito_frontend_requests_total{route="generate",status="5xx",code="shutdown_forced"} 2"#;
    running.wait_for_metric(forced).await;
    assert_eq!(running.ended().await, Exit::Forced(2));
    assert!(unary.rest().await.is_empty());
}

#[tokio::test]
async fn a_client_that_never_reads_does_not_outlast_the_drain() {
    let (engine, _, dropped) = endless(1_000);
    let running = run_with(engine, |config| config.timeouts.client_stall = Duration::from_secs(3_600)).await;
    let mut client = running.client(post_text(GENERATE, r#"{"stream":true}"#)).await;
    client.head().await;
    for stage in [Stage::Unready, Stage::Draining, Stage::Forced] {
        running.next_stage(stage).await;
    }
    assert_eq!(running.ended().await, Exit::Forced(1));
    is_dropped(dropped).await;
}
