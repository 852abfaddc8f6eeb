//! Headers that say whose request it is and where it goes.

use serde_json::json;

use super::{ROUTES, body};
use crate::harness::{Call, MockEngine, Serve};

#[tokio::test]
async fn headers_name_the_request_its_session_and_its_rank() {
    let engine = MockEngine::start(&["--data-parallel-size", "2"]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let named = |call: Call| {
        call.header("x-request-id", "named").header("x-session-id", "s1").header("x-data-parallel-rank", "1")
    };
    for path in ROUTES {
        engine.forget().await;
        let body = body(path, false, &json!({ "request_id": "other" }));
        let reply = named(serve.post(path, &body)).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.header("x-request-id"), Some("named"));
        let entries = engine.entries("named").await;
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].0["rank"], json!(1));
        assert_eq!(entries[0].message()["session_id"], json!("s1"));
        let reply = serve.post(path, &body).send().await;
        assert_eq!(reply.header("x-request-id"), Some("other"), "the body's, without a header");
        assert_eq!(engine.entries("other").await.len(), 1);
    }
}

#[tokio::test]
async fn a_pinned_worker_is_the_one_that_gets_the_request() {
    let engines = [MockEngine::start(&[]).await, MockEngine::start(&[]).await];
    let urls = engines.each_ref().map(MockEngine::url);
    let serve = Serve::start(&urls.each_ref().map(String::as_str), &[]).await;
    serve.wait_metric("tito_fleet_worker_ready", &[], 2.0).await;
    for path in ROUTES {
        for pinned in [0, 1, 1, 0, 0] {
            let worker = engines[pinned].grpc.to_string();
            let call = serve.post(path, &body(path, false, &json!({}))).header("x-request-id", "pinned");
            // Saying the same twice is fine.
            let reply = call.header("x-tito-worker", &worker).header("X-Tito-Worker", &worker).send().await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            let mut reached = Vec::new();
            for engine in &engines {
                reached.push(engine.entries("pinned").await.len());
                engine.forget().await;
            }
            let expected = if pinned == 0 { [1, 0] } else { [0, 1] };
            assert_eq!(reached, expected, "{path} to {worker}");
        }
    }
}
