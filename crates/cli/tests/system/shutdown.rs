//! The way out, signal by signal.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{GENERATE, Serve, assert_envelope, served, wait_for};

/// Longer than any test: such a stage only ends by a signal.
const NEVER: &str = "1h";

/// Waits until new work is refused. What it asks with would be refused anyway, so that it never waits for an engine.
async fn wait_draining(serve: &Serve) {
    wait_for("503 for new work", async || {
        (serve.post(GENERATE, &json!({})).send().await.status == 503).then_some(())
    })
    .await;
    for stream in [false, true] {
        let reply = serve.generate("new", 4, stream).send().await;
        let error = assert_envelope("draining", &reply);
        assert_eq!((reply.status, &error["code"]), (503, &json!("draining")));
        assert_eq!(reply.header("connection"), Some("close"));
    }
}

#[tokio::test]
async fn a_mock_that_waits_for_its_requests_ends_at_once_with_the_second_signal() {
    let (mut engine, serve) = served(&["--shutdown-timeout", NEVER], &[]).await;
    engine.pause().await;
    let _asked = serve.generate("r", 6, true).begin();
    engine.wait_count("r", "queued", 1).await;
    engine.process.signal(Signal::SIGTERM);
    engine.process.logged("shutdown begins").await;
    engine.process.signal(Signal::SIGTERM);
    assert_eq!(engine.process.exit().await.code(), Some(1));
}

#[tokio::test]
async fn a_server_leaves_in_steps_and_finishes_what_it_began() {
    let (engine, mut serve) = served(&[], &["--unready-delay", NEVER, "--drain-timeout", NEVER]).await;
    engine.pause().await;
    let (stream, unary) = (serve.generate("s", 6, true).begin(), serve.generate("u", 6, false).begin());
    engine.wait_count("s", "queued", 1).await;
    engine.wait_count("u", "queued", 1).await;

    serve.process.signal(Signal::SIGTERM);
    let ready = serve.wait_status("/ready", 503).await;
    assert!(ready.json()["reasons"].as_array().unwrap().contains(&json!("draining")), "{}", ready.text());
    assert!(ready.header("retry-after").is_some());
    assert_eq!(serve.get("/live").send().await.status, 200);
    let late = serve.generate("late", 6, true).begin();
    engine.wait_count("late", "queued", 1).await;

    serve.process.signal(Signal::SIGTERM);
    wait_draining(&serve).await;
    for path in ["/live", "/healthz", "/liveness"] {
        assert_eq!(serve.get(path).send().await.status, 200, "{path} while draining");
    }
    assert_eq!(serve.get("/metrics").send().await.status, 200);

    engine.resume().await;
    for begun in [stream, unary, late] {
        let reply = begun.reply().await;
        assert_eq!((reply.status, reply.finish_reason().as_deref()), (200, Some("length")));
        assert_eq!(reply.tokens().len(), 6);
    }
    assert_eq!(serve.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn time_alone_moves_a_server_from_step_to_step() {
    let (engine, mut serve) = served(&[], &["--unready-delay", "200ms", "--drain-timeout", NEVER]).await;
    engine.pause().await;
    let asked = serve.generate("s", 6, true).begin();
    engine.wait_count("s", "queued", 1).await;
    serve.process.signal(Signal::SIGINT);
    wait_draining(&serve).await;
    engine.resume().await;
    assert_eq!(asked.reply().await.tokens().len(), 6);
    assert_eq!(serve.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_cut_off() {
    let (engine, mut serve) = served(&[], &["--unready-delay", "0", "--drain-timeout", "200ms"]).await;
    engine.fault(&json!({ "kind": "stall", "at_token": 2 })).await;
    let mut stream = serve.generate("s", 6, true).open().await;
    stream.event().await.unwrap();
    let unary = serve.generate("u", 6, false).begin();
    engine.wait_tokens("u", 2).await;
    serve.process.signal(Signal::SIGTERM);
    assert_eq!(serve.process.exit().await.code(), Some(1));
    let (reply, broken) = stream.rest().await;
    assert!(broken.is_some(), "a stream without an end looks whole: {}", reply.text());
    assert!(unary.failed().await, "a unary request that was cut off got a reply");
    for id in ["s", "u"] {
        engine.wait_state(id, "aborted").await;
    }
}

#[tokio::test]
async fn every_further_signal_skips_a_step() {
    let (engine, mut serve) = served(&[], &["--unready-delay", NEVER, "--drain-timeout", NEVER]).await;
    engine.fault(&json!({ "kind": "stall", "at_token": 2 })).await;
    let _stream = serve.generate("s", 6, true).begin();
    engine.wait_tokens("s", 2).await;
    serve.process.signal(Signal::SIGTERM);
    serve.wait_status("/ready", 503).await;
    serve.process.signal(Signal::SIGINT);
    wait_draining(&serve).await;
    serve.process.signal(Signal::SIGTERM);
    assert_eq!(serve.process.exit().await.code(), Some(1));
    engine.wait_state("s", "aborted").await;
}

#[tokio::test]
async fn an_idle_server_and_an_idle_engine_leave_at_once() {
    let (mut engine, mut serve) = served(&[], &["--unready-delay", "0", "--drain-timeout", NEVER]).await;
    let _kept = tokio::net::TcpStream::connect(serve.address).await.unwrap();
    assert_eq!(serve.get("/live").send().await.status, 200);
    for process in [&mut serve.process, &mut engine.process] {
        process.signal(Signal::SIGTERM);
        assert_eq!(process.exit().await.code(), Some(0), "an idle connection is no work");
    }
}
