//! The HTTP routes.

use prost::Message;
use serde_json::{Value, json};
use tito_mock::MockConfig;
use tito_test_support::fixtures;
use tito_test_support::wait::wait_until;
use vllm_proto::{GenerateRequest, KvCacheParameters, RandomSampling};

use crate::replay::dense;
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
    let mock = Running::start(dense()).await;
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
    for _ in 0..2 {
        mock.generate(request("r", &prompt(1, 70), 3)).await;
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
    let sent = GenerateRequest {
        temperature: Some(0.7),
        sampling: Some(RandomSampling { seed: Some(-5), top_p: Some(0.9), ..RandomSampling::default() }),
        kv: Some(KvCacheParameters { cache_salt: "s".to_owned(), ..KvCacheParameters::default() }),
        ..request("third", &[1, 2, 3], 4)
    };
    for asked in [request("first", &prompt(1, 70), 1), request("second", &prompt(1, 70), 1), sent.clone()] {
        mock.generate(asked).await;
    }
    let done = || mock.handle.requests().iter().all(|entry| entry.state().is_final());
    wait_until("all ended", done).await;
    let journal = mock.json("/mock/requests").await;
    let [second, last] = fixtures::list(&journal["requests"]) else {
        panic!("the oldest is gone: {journal}")
    };
    assert_eq!(second["request_id"], "second");
    assert_eq!((&second["cached_tokens"], &second["prompt_tokens"]), (&json!(64), &json!(70)));
    let ended = json!([last["state"], last["cause"], last["output_tokens"]]);
    assert_eq!(ended, json!(["finished", null, 4]));
    let request = json!({
        "request_id": "third",
        "token_ids": { "ids": [1, 2, 3] },
        "temperature": 0.7,
        "sampling": { "top_p": 0.9, "seed": "-5" },
        "stopping": { "max_new_tokens": 4 },
        "response": { "output_token_ids": true },
        "kv": { "cache_salt": "s" },
    });
    assert_eq!(last["request"], request);
    let wire = fixtures::base64(last["wire_b64"].as_str().unwrap());
    assert_eq!(GenerateRequest::decode(wire).unwrap(), sent);
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
