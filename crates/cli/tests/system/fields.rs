//! A request of each format with something in every part of the message, and the message that reaches the engine.
//!
//! Each field alone is tested where it is decided: what a client may send and what it means in `tito-formats`, what of the
//! message it becomes in `tito-engine-vllm`.

mod headers;
mod media;

use serde_json::{Value, json};

use crate::harness::{COMPLETIONS, Entry, GENERATE, MockEngine, Serve, assert_envelope};

/// Both routes.
pub(crate) const ROUTES: [&str; 2] = [GENERATE, COMPLETIONS];

/// The plain request of a route, with more members beside the prompt.
pub(crate) fn body(path: &str, stream: bool, more: &Value) -> Value {
    let mut body = match path {
        GENERATE => json!({ "token_ids": [11, 12, 13], "sampling_params": { "max_tokens": 3 } }),
        _ => json!({ "prompt": [11, 12, 13], "max_tokens": 3 }),
    };
    body["stream"] = json!(stream);
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// More members for a request: sampling parameters where the route has them, and others beside the prompt.
pub(crate) fn sampled(path: &str, sampling: &Value, beside: &Value) -> Value {
    let mut more = beside.clone();
    if path == GENERATE {
        more["sampling_params"] = sampling.clone();
        return more;
    }
    for (name, value) in sampling.as_object().unwrap() {
        more[name] = value.clone();
    }
    more
}

/// Sets what a JSON pointer points at.
fn change(message: &mut Value, pointer: &str, value: &Value) {
    let mut at = message;
    for step in pointer.split('/').skip(1) {
        if at.is_null() {
            *at = json!({});
        }
        at = at.as_object_mut().unwrap().entry(step).or_insert(Value::Null);
    }
    at.clone_from(value);
}

/// Sends a body and returns the messages that reached the engine.
async fn messages(serve: &Serve, engine: &MockEngine, path: &str, body: &Value) -> Vec<Value> {
    engine.forget().await;
    let reply = serve.post(path, body).send().await;
    assert_eq!(reply.status, 200, "{body}: {}", reply.text());
    let kind = if body["stream"] == true { "text/event-stream" } else { "application/json" };
    assert_eq!(reply.header("content-type"), Some(kind), "{body}");
    assert!(reply.error_code().is_none(), "{body}: {}", reply.text());
    engine.journal().await.iter().map(Entry::message).collect()
}

/// An engine that takes everything that is asked for here.
async fn engine() -> MockEngine {
    let names = ["--served-model-name", "m", "alias"];
    MockEngine::start(&[&names[..], &["--kv-connector", "--multimodal", "--max-model-len", "256"]].concat())
        .await
}

#[tokio::test]
async fn every_part_of_the_message_is_filled_from_each_format_in_both_deliveries() {
    let sampling = json!({
        "max_tokens": 5, "min_tokens": 2, "temperature": 0.25, "top_p": 0.5, "seed": -42, "repetition_penalty": 1.25,
        "logit_bias": { "7": 2.5 }, "bad_words_token_ids": [[7], [8, 9]], "structured_outputs": { "regex": "[0-9]+" },
        "stop_token_ids": [900], "thinking_token_budget": 64, "logprobs": 2, "skip_reading_prefix_cache": true,
    });
    let hand_off =
        json!({ "do_remote_decode": true, "remote_port": 5600, "nested": { "a": [1, null, "b"] } });
    let beside = json!({
        "model": "alias", "return_token_ids": true, "cache_salt": "tenant-1", "priority": -5,
        "kv_transfer_params": hand_off,
    });
    let changes = [
        ("/model", json!("alias")),
        ("/priority", json!(-5)),
        ("/temperature", json!(0.25)),
        ("/sampling/top_p", json!(0.5)),
        ("/sampling/seed", json!("-42")),
        ("/decoding/repetition_penalty", json!(1.25)),
        ("/decoding/logit_bias", json!({ "7": 2.5 })),
        ("/decoding/bad_words_token_ids", json!([{ "ids": [7] }, { "ids": [8, 9] }])),
        ("/decoding/regex", json!("[0-9]+")),
        ("/stopping/max_new_tokens", json!(5)),
        ("/stopping/min_new_tokens", json!(2)),
        ("/stopping/stop_token_ids", json!([900])),
        ("/stopping/thinking_token_budget", json!("64")),
        ("/response/output_logprobs", json!(true)),
        ("/response/output_candidates", json!({ "top_n": 2 })),
        ("/response/prompt_token_ids", json!(true)),
        ("/kv/cache_salt", json!("tenant-1")),
        ("/kv/bypass_prefix_cache", json!(true)),
        // Protobuf's JSON writes whole doubles so.
        ("/kv/kv_transfer_params/do_remote_decode", json!(true)),
        ("/kv/kv_transfer_params/remote_port", json!(5600.0)),
        ("/kv/kv_transfer_params/nested", json!({ "a": [1.0, null, "b"] })),
    ];
    let own = |path| match path {
        GENERATE => ("reasoning_ended", json!(false), "/engine_reasoning_gate/reasoning_ended", json!(false)),
        _ => ("session_id", json!("s1"), "/session_id", json!("s1")),
    };
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &["--strict"]).await;
    for path in ROUTES {
        for stream in [false, true] {
            let mut expected =
                messages(&serve, &engine, path, &body(path, stream, &json!({}))).await.remove(0);
            let (field, value, pointer, there) = own(path);
            let mut beside = beside.clone();
            beside[field] = value;
            let found =
                messages(&serve, &engine, path, &body(path, stream, &sampled(path, &sampling, &beside)))
                    .await;
            for (pointer, value) in changes.iter().chain([&(pointer, there)]) {
                change(&mut expected, pointer, value);
            }
            assert_eq!(sorted(&found), sorted(&[expected]), "{path}, stream: {stream}");
        }
    }
}

/// Messages whose members are in one order, since a pointer may add one behind the others.
fn sorted(messages: &[Value]) -> Vec<Value> {
    fn sort(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<_> =
                    fields.iter().map(|(name, value)| (name.clone(), sort(value))).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Value::Object(fields.into_iter().collect())
            }
            Value::Array(items) => items.iter().map(sort).collect(),
            other => other.clone(),
        }
    }
    messages.iter().map(sort).collect()
}

#[tokio::test]
async fn several_choices_and_several_prompts_are_as_many_messages() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    for stream in [false, true] {
        for path in ROUTES {
            let plain = messages(&serve, &engine, path, &body(path, stream, &json!({}))).await;
            let three = sampled(path, &json!({ "max_tokens": 3, "n": 3 }), &json!({}));
            let found = messages(&serve, &engine, path, &body(path, stream, &three)).await;
            assert_eq!(found, vec![plain[0].clone(); 3], "{path}, stream: {stream}");
        }
        let two = body(COMPLETIONS, stream, &json!({ "prompt": [[5, 6], [7]] }));
        let found = messages(&serve, &engine, COMPLETIONS, &two).await;
        let mut prompts: Vec<&Value> = found.iter().map(|message| &message["token_ids"]["ids"]).collect();
        prompts.sort_by_key(|ids| ids.as_array().unwrap().len());
        assert_eq!(prompts, [&json!([7]), &json!([5, 6])], "stream: {stream}");
    }
}

#[tokio::test]
async fn sampling_defaults_are_sent_unless_the_engine_is_to_have_its_own() {
    let engine = engine().await;
    let sent = json!({
        "temperature": 1.0,
        "sampling": { "num_sequences": 1, "top_k": 0, "top_p": 1.0, "min_p": 0.0 },
        "decoding": { "repetition_penalty": 1.0 },
    });
    let left = json!({ "temperature": null, "sampling": { "num_sequences": 1 }, "decoding": {} });
    for (whose, expected) in [("vllm", sent), ("engine", left)] {
        let serve = Serve::ready(&[&engine.url()], &["--generation-config", whose]).await;
        for path in ROUTES {
            let found = messages(&serve, &engine, path, &body(path, false, &json!({}))).await;
            for part in ["temperature", "sampling", "decoding"] {
                assert_eq!(found[0][part], expected[part], "{whose} {path} {part}");
            }
        }
    }
}

#[tokio::test]
async fn an_unknown_field_is_listed_or_refused_when_strict() {
    let engine = engine().await;
    let lenient = Serve::ready(&[&engine.url()], &[]).await;
    let strict = Serve::ready(&[&engine.url()], &["--strict"]).await;
    for path in ROUTES {
        for stream in [false, true] {
            let plain = messages(&lenient, &engine, path, &body(path, stream, &json!({}))).await;
            let unknown = body(path, stream, &json!({ "never_heard_of": { "a": 1 }, "nor_of_this": null }));
            assert_eq!(messages(&lenient, &engine, path, &unknown).await, plain);
            let reply = lenient.post(path, &unknown).send().await;
            assert_eq!(reply.header("x-tito-ignored"), Some("never_heard_of, nor_of_this"));
            let reply = strict.post(path, &unknown).send().await;
            let error = assert_envelope(path, &reply);
            assert_eq!((reply.status, &error["param"]), (400, &json!("never_heard_of")));
        }
        let start = json!({ "routed_experts_prompt_start": 1, "max_tokens": 3 });
        let reply = strict.post(path, &body(path, false, &sampled(path, &start, &json!({})))).send().await;
        let listed = reply.header("x-tito-ignored").unwrap_or_default();
        assert!(listed.ends_with("routed_experts_prompt_start"), "what the engine cannot honour: {listed}");
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
}
