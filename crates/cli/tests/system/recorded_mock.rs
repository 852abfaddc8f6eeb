//! The routes of vLLM's HTTP server that the mock has, against its recorded answers: status, content and every key.

use serde_json::Value;

use crate::harness::{Call, MockEngine};

/// What the recorded engine was started with, as far as these routes show it.
const EVENTS: &str =
    r#"{"enable_kv_cache_events":true,"endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0","topic":"kv"}"#;

/// Every GET recording whose path the mock knows, or that neither knows.
const RECORDINGS: [(&str, &str); 7] = [
    ("health", include_str!("../../../../fixtures/vllm-0.32/http-rs/health.json")),
    ("version", include_str!("../../../../fixtures/vllm-0.32/http-rs/version.json")),
    ("load", include_str!("../../../../fixtures/vllm-0.32/http-rs/load.json")),
    ("models", include_str!("../../../../fixtures/vllm-0.32/http-rs/models.json")),
    ("kv-event-sources", include_str!("../../../../fixtures/vllm-0.32/http-rs/kv-event-sources.json")),
    ("ping", include_str!("../../../../fixtures/vllm-0.32/http-rs/ping.json")),
    ("not-found", include_str!("../../../../fixtures/vllm-0.32/http-rs/not-found.json")),
];

/// Values that belong to one process, ports among them.
const OWN: [&str; 4] = ["created", "root", "endpoint", "replay_endpoint"];

/// The same keys at every depth, and the same values except those of one process.
fn assert_same(about: &str, found: &Value, recorded: &Value) {
    match (found, recorded) {
        (Value::Object(found), Value::Object(recorded)) => {
            let keys = |object: &serde_json::Map<String, Value>| object.keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(found), keys(recorded), "{about}");
            for (key, value) in recorded.iter().filter(|(key, _)| !OWN.contains(&key.as_str())) {
                assert_same(&format!("{about}.{key}"), &found[key], value);
            }
        }
        (Value::Array(found), Value::Array(recorded)) => {
            assert_eq!(found.len(), recorded.len(), "{about}");
            for (at, (found, recorded)) in found.iter().zip(recorded).enumerate() {
                assert_same(&format!("{about}[{at}]"), found, recorded);
            }
        }
        _ => assert_eq!(found, recorded, "{about}"),
    }
}

#[tokio::test]
async fn the_mock_answers_as_vllm_was_recorded_to() {
    let names = ["--served-model-name", "dense", "dense-alias", "--kv-events-config", EVENTS];
    let engine = MockEngine::of_model("dense", &names).await;
    for (name, recording) in RECORDINGS {
        let recording: Value = serde_json::from_str(recording).unwrap();
        let reply = Call::get(engine.http, recording["request"]["path"].as_str().unwrap()).send().await;
        let recorded = &recording["response"];
        assert_eq!(u64::from(reply.status), recorded["status"].as_u64().unwrap(), "{name}");
        match recorded.get("body") {
            Some(body) => assert_same(name, &reply.json(), body),
            None => assert_eq!(reply.text(), recorded["body_text"].as_str().unwrap(), "{name}"),
        }
    }
}
