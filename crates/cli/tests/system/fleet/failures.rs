//! What a failing engine is turned into: each gRPC status, silence, pauses, death behind a living frontend.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::harness::{Asked, GENERATE, MockEngine, Serve, assert_envelope, generate, wait_for};

/// One gRPC status of each reading; the reply to a call that never answered; the code of a stream that had begun. What each
/// status is read as is tested in `tito-engine-vllm`, what becomes of each reading in `tito-frontend`.
const STATUSES: [(&str, u16, &str, &str); 8] = [
    ("INVALID_ARGUMENT", 400, "engine_refused", "engine_refused"),
    ("DEADLINE_EXCEEDED", 504, "deadline_exceeded", "deadline_exceeded"),
    ("NOT_FOUND", 404, "model_not_found", "model_not_found"),
    ("RESOURCE_EXHAUSTED", 429, "overloaded", "overloaded"),
    ("OUT_OF_RANGE", 413, "message_too_large", "message_too_large"),
    ("UNIMPLEMENTED", 501, "unsupported", "unsupported"),
    ("INTERNAL", 502, "worker_failed", "worker_failed"),
    ("UNAVAILABLE", 503, "worker_unreachable", "worker_lost"),
];

const CLIENTS_FAULT: [&str; 3] = ["engine_refused", "model_not_found", "message_too_large"];

#[tokio::test]
async fn each_kind_of_status_of_an_engine_has_its_reply() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    for (grpc, status, code, _) in STATUSES {
        for stream in [false, true] {
            let fault =
                json!({ "kind": "error", "code": grpc, "message": "words of the engine", "count": 1 });
            engine.fault(&fault).await;
            let reply = serve.generate("r", 4, stream).send().await;
            let told = if reply.header("content-type") == Some("text/event-stream") {
                // The engine had taken the call, so the head of the reply had left.
                reply.events().last().unwrap()["error"].clone()
            } else {
                assert_eq!(reply.status, status, "{grpc}");
                assert_envelope(grpc, &reply)
            };
            assert_eq!(told["code"], code, "{grpc}, stream {stream}");
            let message = told["message"].as_str().unwrap();
            assert_eq!(message.contains("words of the engine"), CLIENTS_FAULT.contains(&code), "{message}");
            serve.assert_serves("next").await;
        }
    }
}

#[tokio::test]
async fn each_kind_of_status_that_ends_a_stream_is_one_event() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    for (grpc, _, _, code) in STATUSES {
        engine.fault(&json!({ "kind": "error", "code": grpc, "at_token": 2, "count": 1 })).await;
        let reply = serve.generate("r", 4, true).send().await;
        assert_eq!(
            (reply.status, reply.error_code().as_deref()),
            (200, Some(code)),
            "{grpc}: {}",
            reply.text()
        );
        assert_eq!(reply.tokens().len(), 2, "{grpc}: {}", reply.text());
        serve.assert_serves("next").await;
    }
}

#[tokio::test]
async fn an_engine_that_is_dead_inside_is_left_alone() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
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
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &STALL_TIMEOUT).await;
    let cases = [(0, false, 8), (2, false, 8), (2, false, 1024), (0, true, 8), (2, true, 8)];
    let began = Instant::now();
    let mut asked = Vec::new();
    for (number, (at_token, stream, max_tokens)) in cases.into_iter().enumerate() {
        let id = format!("r{number}");
        engine.fault(&json!({ "kind": "stall", "at_token": at_token, "request": id })).await;
        asked.push((id.clone(), stream, Asked::new(serve.generate(&id, max_tokens, stream))));
    }
    for (id, stream, asked) in asked {
        let reply = asked.reply().await;
        assert!(began.elapsed() >= STALL);
        assert_eq!(reply.error_code().as_deref(), Some("worker_stalled"), "{id}: {}", reply.text());
        let told = if stream { 200 } else { 504 };
        assert_eq!(reply.status, told, "{id}");
        engine.wait_state(&id, "aborted").await;
    }
    serve.assert_serves("next").await;
}

#[tokio::test]
async fn a_pause_is_no_stall() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &STALL_TIMEOUT).await;
    engine.pause().await;
    let asked: Vec<Asked> = [(false, 8), (false, 1024), (true, 8)]
        .map(|(stream, tokens)| Asked::new(serve.generate("r", tokens, stream)))
        .into();
    engine.wait_count("r", "queued", 3).await;
    let began = Instant::now();
    wait_for("more than a stall timeout", async || (began.elapsed() > STALL + STALL / 2).then_some(())).await;
    engine.wait_count("r", "queued", 3).await;
    engine.resume().await;
    for asked in asked {
        let reply = asked.reply().await;
        assert_eq!(
            (reply.status, reply.finish_reason().as_deref()),
            (200, Some("length")),
            "{}",
            reply.text()
        );
    }
}

#[tokio::test]
async fn one_failing_continuation_ends_its_siblings() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
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
