//! What a failing engine is turned into: silence, pauses, death behind a living frontend.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::harness::{GENERATE, assert_envelope, generate, served, wait_for};

#[tokio::test]
async fn an_engine_that_is_dead_inside_is_left_alone() {
    let (engine, serve) = served(&[], &[]).await;
    engine.fault(&json!({ "kind": "engine_dead", "at_token": 2 })).await;
    let reply = serve.generate("r", 4, true).send().await;
    assert!(reply.error_code().is_some(), "{}", reply.text());
    let ready = serve.wait_status("/ready", 503).await;
    assert!(ready.text().contains("NOT_SERVING"), "{}", ready.text());
    let reply = serve.generate("r", 4, false).send().await;
    assert_envelope("a dead engine", &reply);
    assert_eq!(reply.status, 503);
}

/// Long enough for a busy machine to make progress, and waited for once.
const STALL: Duration = Duration::from_secs(2);
const STALL_TIMEOUT: [&str; 2] = ["--stall-timeout", "2s"];

#[tokio::test]
async fn silence_ends_at_the_stall_timeout() {
    let (engine, serve) = served(&[], &STALL_TIMEOUT).await;
    let cases = [(0, false, 8), (2, false, 8), (2, false, 1024), (0, true, 8), (2, true, 8)];
    let began = Instant::now();
    let mut asked = Vec::new();
    for (number, (at_token, stream, max_tokens)) in cases.into_iter().enumerate() {
        let id = format!("r{number}");
        engine.fault(&json!({ "kind": "stall", "at_token": at_token, "request": id })).await;
        asked.push((serve.generate(&id, max_tokens, stream).begin(), id, stream));
    }
    for (begun, id, stream) in asked {
        let reply = begun.reply().await;
        assert!(began.elapsed() >= STALL);
        let told = (reply.status, reply.error_code());
        assert_eq!(told, (if stream { 200 } else { 504 }, Some("worker_stalled".to_owned())), "{id}");
        engine.wait_state(&id, "aborted").await;
    }
    serve.assert_serves("next").await;
}

#[tokio::test]
async fn a_pause_is_no_stall() {
    let (engine, serve) = served(&[], &STALL_TIMEOUT).await;
    engine.pause().await;
    let deliveries = [(false, 8), (false, 1024), (true, 8)];
    let begun = deliveries.map(|(stream, tokens)| serve.generate("r", tokens, stream).begin());
    engine.wait_count("r", "queued", 3).await;
    let began = Instant::now();
    wait_for("more than a stall timeout", async || (began.elapsed() > STALL + STALL / 2).then_some(())).await;
    engine.wait_count("r", "queued", 3).await;
    engine.resume().await;
    for begun in begun {
        let reply = begun.reply().await;
        let ended = (reply.status, reply.finish_reason());
        assert_eq!(ended, (200, Some("length".to_owned())), "{}", reply.text());
    }
}

#[tokio::test]
async fn one_failing_continuation_ends_its_siblings() {
    let (engine, serve) = served(&[], &[]).await;
    for stream in [false, true] {
        engine.forget().await;
        engine.clear_faults().await;
        engine.fault(&json!({ "kind": "error", "at_token": 3, "request": "r", "count": 1 })).await;
        engine.fault(&json!({ "kind": "stall", "at_token": 5, "request": "r" })).await;
        let mut body = generate("r", 16, stream);
        body["sampling_params"]["n"] = json!(3);
        let reply = serve.post(GENERATE, &body).send().await;
        assert_eq!(reply.error_code().as_deref(), Some("worker_failed"), "{}", reply.text());
        // A sibling that had not reached the engine when the first one failed never does.
        let causes = wait_for("every continuation aborted", async || {
            let entries = engine.entries("r").await;
            let causes: Vec<_> = entries.iter().map(|entry| entry.cause().map(str::to_owned)).collect();
            causes.into_iter().collect::<Option<Vec<String>>>()
        })
        .await;
        assert_eq!(causes.iter().filter(|cause| *cause == "fault").count(), 1, "{causes:?}");
        assert!(causes.iter().all(|cause| cause == "fault" || cause == "disconnected"), "{causes:?}");
    }
    serve.wait_metric("tito_admission_in_flight", &[], 0.0).await;
}
