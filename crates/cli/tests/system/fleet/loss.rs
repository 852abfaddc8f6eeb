//! Engines that go away: idle, before their first token, in the middle of a reply.

use serde_json::json;

use crate::fleet::{holding, pair};
use crate::harness::served;

#[tokio::test]
async fn an_engine_that_dies_idle_is_not_missed() {
    let (mut one, other, serve) = pair(&[]).await;
    one.process.kill().await;
    for stream in [false, true].into_iter().cycle().take(10) {
        let reply = serve.generate("r", 4, stream).send().await;
        assert_eq!((reply.status, reply.tokens().len()), (200, 4), "{}", reply.text());
        assert_eq!(serve.get("/ready").send().await.status, 200);
        let models = serve.get("/v1/models").send().await.json();
        assert_eq!(models["data"][0]["id"], "m", "{models}");
    }
    assert_eq!(other.entries("r").await.len(), 10);
    serve.wait_note(&one.grpc.to_string()).await;
    serve.wait_metric("tito_fleet_worker_ready", &[], 1.0).await;
}

#[tokio::test]
async fn a_request_of_which_nothing_was_delivered_goes_to_the_other_engine() {
    // A unary call delivers nothing before its end.
    for (at_token, stream) in [(0, false), (0, true), (2, false)] {
        let (mut one, mut other, serve) = pair(&[]).await;
        for engine in [&one, &other] {
            engine.fault(&json!({ "kind": "stall", "at_token": at_token, "request": "r" })).await;
        }
        let begun = serve.generate("r", 4, stream).begin();
        let [holder, spare] = holding("r", &mut one, &mut other).await;
        holder.wait_tokens("r", at_token).await;
        spare.clear_faults().await;
        holder.process.kill().await;
        let reply = begun.reply().await;
        assert_eq!((reply.status, reply.tokens().len()), (200, 4), "{}", reply.text());
        assert_eq!(spare.entries("r").await.len(), 1);
    }
}

#[tokio::test]
async fn a_stream_whose_only_engine_dies_ends_with_one_error() {
    let (mut engine, serve) = served(&[], &[]).await;
    engine.fault(&json!({ "kind": "stall", "at_token": 2 })).await;
    let mut open = serve.generate("r", 4, true).open().await;
    assert_eq!(open.status, 200);
    open.event().await.unwrap();
    engine.process.kill().await;
    let reply = open.whole().await;
    let events = reply.events();
    let errors = events.iter().filter(|event| event.get("error").is_some()).count();
    assert_eq!((errors, reply.error_code().as_deref()), (1, Some("worker_lost")), "{}", reply.text());
    assert!(reply.tokens().len() <= 1, "the second token at most: {}", reply.text());
    let labels = ["status=\"2xx\"", "code=\"worker_lost\""];
    serve.wait_metric("tito_frontend_requests_total", &labels, 1.0).await;
    serve.wait_status("/ready", 503).await;
}
