//! Engines that go away: idle, before their first token, in the middle of a reply.

use serde_json::json;

use crate::fleet::{holding, pair};
use crate::harness::{Asked, MockEngine, Serve, assert_envelope};

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
async fn a_request_without_a_first_token_goes_to_the_other_engine() {
    for stream in [false, true] {
        let (mut one, mut other, serve) = pair(&[]).await;
        one.pause().await;
        other.pause().await;
        let asked = Asked::new(serve.generate("r", 4, stream));
        crate::harness::wait_for("the request at an engine", async || {
            (one.entries("r").await.len() + other.entries("r").await.len() == 1).then_some(())
        })
        .await;
        let [holder, spare] = holding("r", &mut one, &mut other).await;
        spare.resume().await;
        holder.process.kill().await;
        let reply = asked.reply().await;
        assert_eq!((reply.status, reply.tokens().len()), (200, 4), "{}", reply.text());
        assert_eq!(spare.entries("r").await.len(), 1);
    }
}

#[tokio::test]
async fn a_unary_call_that_was_running_goes_to_the_other_engine() {
    let (mut one, mut other, serve) = pair(&[]).await;
    for engine in [&one, &other] {
        engine.fault(&json!({ "kind": "stall", "at_token": 2, "request": "r", "count": 1 })).await;
    }
    let asked = Asked::new(serve.generate("r", 4, false));
    crate::harness::wait_for("the request at an engine", async || {
        (one.entries("r").await.len() + other.entries("r").await.len() == 1).then_some(())
    })
    .await;
    let [holder, spare] = holding("r", &mut one, &mut other).await;
    holder.wait_tokens("r", 2).await;
    spare.clear_faults().await;
    holder.process.kill().await;
    let reply = asked.reply().await;
    assert_eq!((reply.status, reply.tokens().len()), (200, 4), "{}", reply.text());
    assert_eq!(spare.entries("r").await.len(), 1);
}

#[tokio::test]
async fn a_stream_whose_only_engine_dies_ends_with_one_error() {
    let mut engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
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

#[tokio::test]
async fn without_an_engine_a_known_model_is_unavailable() {
    let mut engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    engine.process.kill().await;
    serve.wait_status("/ready", 503).await;
    for stream in [false, true] {
        for model in [json!(null), json!("m")] {
            let mut body = crate::harness::generate("r", 4, stream);
            body["model"] = model;
            let reply = serve.post(crate::harness::GENERATE, &body).send().await;
            let error = assert_envelope("no engine", &reply);
            assert_eq!((reply.status, &error["code"]), (503, &json!("model_unavailable")), "{error}");
        }
    }
    let models = serve.get("/v1/models").send().await;
    assert_eq!((models.status, &models.json()["data"]), (200, &json!([])));
    assert_eq!(serve.get("/v1/models/m").send().await.status, 503);
    assert_eq!(serve.get("/v1/models/other").send().await.status, 404);
}

#[tokio::test]
async fn an_engine_that_dies_by_itself_frees_its_requests() {
    let (one, other, serve) = pair(&[]).await;
    for engine in [&one, &other] {
        engine.fault(&json!({ "kind": "die", "at_token": 2, "request": "r" })).await;
    }
    let reply = serve.generate("r", 4, true).send().await;
    assert_eq!((reply.status, reply.error_code().as_deref()), (200, Some("worker_lost")), "{}", reply.text());
    assert_eq!(reply.tokens().len(), 2, "what was delivered before is there");
    serve.assert_serves("next").await;
    serve.wait_metric("tito_frontend_requests_in_flight", &[], 0.0).await;
    serve.wait_metric("tito_admission_in_flight", &[], 0.0).await;
}
