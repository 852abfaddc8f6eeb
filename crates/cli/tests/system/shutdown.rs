//! The way out, signal by signal.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{Asked, GENERATE, MockEngine, Serve, assert_envelope, wait_for};

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
    let mut engine = MockEngine::start(&["--shutdown-timeout", NEVER]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    engine.pause().await;
    let _asked = Asked::new(serve.generate("r", 6, true));
    engine.wait_count("r", "queued", 1).await;
    engine.process.signal(Signal::SIGTERM);
    engine.process.logged("shutdown begins").await;
    engine.process.signal(Signal::SIGTERM);
    assert_eq!(engine.process.exit().await.code(), Some(1));
}

#[tokio::test]
async fn a_server_leaves_in_steps_and_finishes_what_it_began() {
    let engine = MockEngine::start(&[]).await;
    let args = ["--unready-delay", NEVER, "--drain-timeout", NEVER];
    let mut serve = Serve::ready(&[&engine.url()], &args).await;
    engine.pause().await;
    let (stream, unary) =
        (Asked::new(serve.generate("s", 6, true)), Asked::new(serve.generate("u", 6, false)));
    engine.wait_count("s", "queued", 1).await;
    engine.wait_count("u", "queued", 1).await;

    serve.process.signal(Signal::SIGTERM);
    let ready = serve.wait_status("/ready", 503).await;
    assert!(ready.json()["reasons"].as_array().unwrap().contains(&json!("draining")), "{}", ready.text());
    assert!(ready.header("retry-after").is_some());
    assert_eq!(serve.get("/live").send().await.status, 200);
    let late = Asked::new(serve.generate("late", 6, true));
    engine.wait_count("late", "queued", 1).await;

    serve.process.signal(Signal::SIGTERM);
    wait_draining(&serve).await;
    for path in ["/live", "/healthz", "/liveness"] {
        assert_eq!(serve.get(path).send().await.status, 200, "{path} while draining");
    }
    assert_eq!(serve.get("/metrics").send().await.status, 200);

    engine.resume().await;
    for asked in [stream, unary, late] {
        let reply = asked.reply().await;
        assert_eq!((reply.status, reply.tokens().len()), (200, 6));
        assert_eq!(reply.finish_reason().as_deref(), Some("length"));
    }
    assert_eq!(serve.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn time_alone_moves_a_server_from_step_to_step() {
    let engine = MockEngine::start(&[]).await;
    let args = ["--unready-delay", "200ms", "--drain-timeout", NEVER];
    let mut serve = Serve::ready(&[&engine.url()], &args).await;
    engine.pause().await;
    let asked = Asked::new(serve.generate("s", 6, true));
    engine.wait_count("s", "queued", 1).await;
    serve.process.signal(Signal::SIGINT);
    wait_draining(&serve).await;
    engine.resume().await;
    assert_eq!(asked.reply().await.tokens().len(), 6);
    assert_eq!(serve.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_cut_off() {
    let engine = MockEngine::start(&[]).await;
    let args = ["--unready-delay", "0", "--drain-timeout", "200ms"];
    let mut serve = Serve::ready(&[&engine.url()], &args).await;
    engine.fault(&json!({ "kind": "stall", "at_token": 2 })).await;
    let mut stream = serve.generate("s", 6, true).open().await;
    stream.event().await.unwrap();
    let unary = Asked::new(serve.generate("u", 6, false));
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
    let engine = MockEngine::start(&[]).await;
    let args = ["--unready-delay", NEVER, "--drain-timeout", NEVER];
    let mut serve = Serve::ready(&[&engine.url()], &args).await;
    engine.fault(&json!({ "kind": "stall", "at_token": 2 })).await;
    let _stream = Asked::new(serve.generate("s", 6, true));
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
async fn an_idle_server_leaves_at_once() {
    for engines in 0..2 {
        let engine = MockEngine::start(&[]).await;
        let url = engine.url();
        // Without an engine behind the address it is as idle.
        let urls = if engines == 0 { ["vllm://127.0.0.1:1"] } else { [url.as_str()] };
        let args = ["--unready-delay", "0", "--drain-timeout", NEVER];
        let mut serve = Serve::start(&urls, &args).await;
        let kept = tokio::net::TcpStream::connect(serve.address).await.unwrap();
        assert_eq!(serve.get("/live").send().await.status, 200);
        serve.process.signal(Signal::SIGTERM);
        assert_eq!(serve.process.exit().await.code(), Some(0), "an idle connection is no work");
        drop(kept);
    }
}

#[tokio::test]
async fn an_engine_leaves_on_a_signal_too() {
    let mut engine = MockEngine::start(&[]).await;
    engine.process.signal(Signal::SIGTERM);
    assert_eq!(engine.process.exit().await.code(), Some(0));
}
