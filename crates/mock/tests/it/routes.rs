//! The HTTP routes.

use base64::Engine as _;
use prost::Message;
use serde_json::{Value, json};
use tito_mock::MockConfig;
use tito_test_support::fixtures;
use tito_test_support::wait::wait_until;
use vllm_proto::{GenerateRequest, KvCacheParameters, RandomSampling};

use crate::support::{Running, prompt, request};

/// Replaces what differs at every start, and ports: tests take free ones.
fn stable(mut body: Value) -> Value {
    for key in ["endpoint", "replay_endpoint"] {
        if let Some(endpoint) = body["0"][key].as_str() {
            body["0"][key] = json!(endpoint.trim_end_matches(|letter: char| letter.is_ascii_digit()));
        }
    }
    if let Some(models) = body["data"].as_array_mut() {
        for model in models {
            model["created"] = json!(0);
        }
    }
    body
}

#[tokio::test]
async fn vllm_routes_answer_as_recorded() {
    let config = MockConfig {
        model: "$MODELS/dense".to_owned(),
        served_model_names: vec!["dense".to_owned(), "dense-alias".to_owned()],
        kv_events: Some(
            tito_mock::KvEventsConfig::parse(
                r#"{"enable_kv_cache_events":true,"endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0","topic":"kv"}"#,
            )
            .unwrap(),
        ),
        ..MockConfig::new()
    };
    let mock = Running::start(config).await;
    for name in ["health", "version", "load", "models", "kv-event-sources", "ping", "not-found"] {
        let recorded = fixtures::json("http-rs", name);
        let path = recorded["request"]["path"].as_str().unwrap();
        let (status, body) = mock.http("GET", path, "").await;
        assert_eq!(json!(status), recorded["response"]["status"], "{name}");
        match recorded["response"].get("body") {
            None => assert_eq!(json!(body), recorded["response"]["body_text"], "{name}"),
            Some(recorded) => {
                assert_eq!(stable(serde_json::from_str(&body).unwrap()), stable(recorded.clone()), "{name}");
            }
        }
    }
}

#[tokio::test]
async fn metrics_count_what_happened_with_recorded_names() {
    let mock = Running::start(MockConfig { data_parallel_size: 2, ..MockConfig::new() }).await;
    let mut client = mock.inference().await;
    for _ in 0..2 {
        client.generate(request("r", &prompt(1, 70), 3)).await.unwrap();
    }
    let (_, text) = mock.http("GET", "/metrics", "").await;
    for line in [
        "vllm:prompt_tokens_total{model_name=\"mock\",engine=\"0\"} 140",
        "vllm:prefix_cache_hits_total{model_name=\"mock\",engine=\"0\"} 64",
        "vllm:generation_tokens_total{model_name=\"mock\",engine=\"0\"} 6",
        "vllm:num_requests_running{model_name=\"mock\",engine=\"1\"} 0",
        "vllm:request_success_total{model_name=\"mock\",engine=\"0\",finished_reason=\"length\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    let recorded = fixtures::json("http-rs", "metrics");
    let recorded = recorded["response"]["body_text"].as_str().unwrap();
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        assert!(recorded.contains(&format!("# TYPE {family}\n")), "{family} is one of vLLM's");
    }
}

#[tokio::test]
async fn the_journal_shows_requests_as_they_came() {
    let mock = Running::start(MockConfig { journal_requests: 2, ..MockConfig::new() }).await;
    let mut client = mock.inference().await;
    let sent = GenerateRequest {
        temperature: Some(0.7),
        sampling: Some(RandomSampling { seed: Some(-5), top_p: Some(0.9), ..RandomSampling::default() }),
        kv: Some(KvCacheParameters { cache_salt: "s".to_owned(), ..KvCacheParameters::default() }),
        ..request("third", &[1, 2, 3], 4)
    };
    client.generate(request("first", &prompt(1, 70), 1)).await.unwrap();
    client.generate(request("second", &prompt(1, 70), 1)).await.unwrap();
    client.generate(sent.clone()).await.unwrap();
    let done = || mock.handle.requests().iter().all(|entry| entry.state().is_final());
    wait_until("all ended", done).await;
    let journal = mock.json("/mock/requests").await;
    let entries = journal["requests"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "the oldest is gone");
    assert_eq!(entries[0]["request_id"], "second");
    assert_eq!((&entries[0]["cached_tokens"], &entries[0]["prompt_tokens"]), (&json!(64), &json!(70)));
    let last = &entries[1];
    assert_eq!(
        (&last["state"], &last["cause"], &last["output_tokens"]),
        (&json!("finished"), &Value::Null, &json!(4))
    );
    assert_eq!(
        last["request"],
        json!({
            "request_id": "third",
            "token_ids": { "ids": [1, 2, 3] },
            "temperature": 0.7,
            "sampling": { "top_p": 0.9, "seed": "-5" },
            "stopping": { "max_new_tokens": 4 },
            "response": { "output_token_ids": true },
            "kv": { "cache_salt": "s" },
        })
    );
    let wire = base64::engine::general_purpose::STANDARD.decode(last["wire_b64"].as_str().unwrap()).unwrap();
    assert_eq!(GenerateRequest::decode(wire.as_slice()).unwrap(), sent);
    assert_eq!(mock.http("DELETE", "/mock/requests", "").await.0, 204);
    assert!(mock.handle.requests().is_empty());
}

#[tokio::test]
async fn a_bad_fault_is_refused_and_says_why() {
    let mock = Running::start(MockConfig::new()).await;
    for body in [
        "",
        "[]",
        "{}",
        r#"{"kind":"melt"}"#,
        r#"{"kind":"die","at_token":-1}"#,
        r#"{"kind":"die","delay_ms":3}"#,
        r#"{"kind":"slow"}"#,
        r#"{"kind":"bad_frame","frame":"blue"}"#,
        r#"{"kind":"logprob"}"#,
        r#"{"kind":"error","code":"OK"}"#,
        r#"{"kind":"refuse","request":"x"}"#,
        r#"{"kind":"kv_frame"}"#,
        r#"{"kind":"kv_frame","frame":"malformed"}"#,
        r#"{"kind":"kv_frame","frame":"drop","request":"x"}"#,
        r#"{"kind":"kv_replay_delay"}"#,
        r#"{"kind":"kv_replay_silent","at_seq":1}"#,
        r#"{"kind":"die","surprise":1}"#,
    ] {
        let (status, reply) = mock.http("POST", "/mock/faults", body).await;
        assert_eq!(status, 400, "{body}");
        assert!(reply.contains("message"), "{reply}");
    }
    for _ in 0..64 {
        assert_eq!(mock.http("POST", "/mock/faults", r#"{"kind":"stall","request":"x"}"#).await.0, 200);
    }
    assert_eq!(mock.http("POST", "/mock/faults", r#"{"kind":"stall"}"#).await.0, 400, "the list is bounded");
    assert_eq!(mock.http("PUT", "/mock/faults", "").await.0, 405);
}
