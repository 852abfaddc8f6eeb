//! Engines that come late, leave for a while, and come back as what they were or as something else.

use serde_json::json;

use crate::fleet::{arrived, holding, pair};
use crate::harness::{MockEngine, Relay, Serve, assert_envelope};

#[tokio::test]
async fn a_restarted_engine_is_taken_back_only_as_what_it_was() {
    let mut engine = MockEngine::start(&[]).await;
    let relay = Relay::to(Some(engine.grpc)).await;
    let serve = Serve::ready(&[&relay.url()], &[]).await;
    let before = serve.assert_serves("before").await.tokens();
    let others: [(&str, &[&str], &str); 5] = [
        ("m", &["--max-model-len", "1024"], "max_model_len was 2048 and is 1024"),
        ("m", &["--block-size", "16"], "capabilities was "),
        ("other", &[], "model was "),
        ("m", &["--data-parallel-size", "2"], "parallelism was "),
        ("m", &["--served-model-name", "m", "alias"], "model was "),
    ];
    for (model, args, reason) in others {
        engine.process.kill().await;
        engine = MockEngine::of_model(model, args).await;
        relay.lead_to(Some(engine.grpc));
        let ready = serve.wait_note("refused").await;
        assert_eq!(ready.status, 503);
        assert!(ready.text().contains(reason), "{reason}: {}", ready.text());
        serve.process.logged(reason).await;
        assert_eq!(serve.generate("r", 4, false).send().await.status, 503);
        assert!(engine.journal().await.is_empty(), "a refused engine got a request");

        engine.process.kill().await;
        // A restart may find memory for more blocks or for fewer.
        engine = MockEngine::start(&["--num-gpu-blocks-override", "900"]).await;
        relay.lead_to(Some(engine.grpc));
        serve.wait_status("/ready", 200).await;
        assert_eq!(serve.assert_serves("after").await.tokens(), before, "the same model draws the same");
    }
}

#[tokio::test]
async fn a_server_waits_for_an_engine_that_starts_late() {
    let relay = Relay::to(None).await;
    let serve = Serve::start(&[&relay.url()], &[]).await;
    let ready = serve.get("/ready").send().await;
    assert_eq!(ready.status, 503);
    assert!(!ready.json()["reasons"].as_array().unwrap().is_empty(), "{}", ready.text());
    assert_eq!(serve.get("/live").send().await.status, 200);
    assert_eq!(serve.get("/v1/models").send().await.json()["data"], json!([]));
    let reply = serve.generate("early", 4, false).send().await;
    assert_envelope("no engine yet", &reply);
    assert_eq!(reply.status, 503, "{}", reply.text());

    let engine = MockEngine::start(&[]).await;
    relay.lead_to(Some(engine.grpc));
    serve.wait_status("/ready", 200).await;
    serve.assert_serves("then").await;
}

#[tokio::test]
async fn a_draining_engine_finishes_and_gets_nothing_new() {
    let (mut one, mut other, serve) = pair(&[]).await;
    for engine in [&one, &other] {
        engine.fault(&json!({ "kind": "slow", "delay_ms": 10, "request": "long" })).await;
    }
    let long = serve.generate("long", 60, true).begin();
    let [leaving, staying] = holding("long", &mut one, &mut other).await;
    let drain = leaving.fault(&json!({ "kind": "drain" })).await;
    serve.wait_metric("tito_fleet_worker_ready", &[], 1.0).await;
    for _ in 0..6 {
        serve.assert_serves("new").await;
    }
    assert_eq!(staying.entries("new").await.len(), 6);
    let reply = long.reply().await;
    assert_eq!((reply.finish_reason().as_deref(), reply.tokens().len()), (Some("length"), 60));

    leaving.unset(drain).await;
    serve.wait_metric("tito_fleet_worker_ready", &[], 2.0).await;
    // Neither answers, so that the second request finds the first one's load and goes to the other engine.
    leaving.pause().await;
    staying.pause().await;
    let mut held = Vec::new();
    for count in 1..=2 {
        held.push(serve.generate("held", 4, false).begin());
        arrived("held", leaving, staying, count).await;
    }
    assert_eq!(leaving.entries("held").await.len(), 1, "the engine that came back takes its share");
}
