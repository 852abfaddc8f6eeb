//! One refusal of each kind on each route, in both deliveries: the status and code it has, the one envelope, and an engine
//! that answers as before.
//!
//! Which values a field takes, and what is said of the others, is tested in `tito-formats`; what is turned away before a
//! body is read, in `tito-frontend`.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::fields::{ROUTES, body, sampled};
use crate::harness::{COMPLETIONS, Call, GENERATE, MockEngine, Reply, Serve, assert_envelope, served};

/// Context of the engine (tokens).
const CONTEXT: usize = 64;
/// Largest body that the server takes (bytes).
const BODY_BYTES: usize = 256 << 10;

/// A server in front of an engine, and what the plain requests are answered with.
struct Stage {
    engine: MockEngine,
    serve: Serve,
    plain: Vec<(&'static str, Value)>,
}

impl Stage {
    async fn set() -> Self {
        let (context, body_bytes) = (CONTEXT.to_string(), BODY_BYTES.to_string());
        let args = ["--max-model-len", &context, "--kv-connector", "--multimodal"];
        let (engine, serve) = served(&args, &["--body-limit", &body_bytes]).await;
        let mut stage = Self { engine, serve, plain: Vec::new() };
        for path in ROUTES {
            stage.plain.push((path, stage.output(path, false).await));
        }
        stage
    }

    /// Ids and text of the plain request's answer; each route has one of the two.
    async fn output(&self, path: &str, stream: bool) -> Value {
        // Greedy: of sampled requests the first token differs.
        let greedy = sampled(path, &json!({ "max_tokens": 3, "temperature": 0 }), &json!({}));
        let reply = self.serve.post(path, &body(path, stream, &greedy)).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let chunks = reply.chunks();
        let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect();
        json!([reply.tokens(), text])
    }

    /// The engine is alive, and answers as it always did.
    async fn assert_unhurt(&self, about: &str) {
        for (path, plain) in &self.plain {
            for stream in [false, true] {
                assert_eq!(self.output(path, stream).await, *plain, "after {about}");
            }
        }
    }
}

#[track_caller]
fn check(about: &str, reply: &Reply, status: u16, code: &str) -> Value {
    let error = assert_envelope(about, reply);
    assert_eq!((reply.status, &error["code"]), (status, &json!(code)), "{about}: {error}");
    error
}

/// Bodies of a route with the status, the code and the field that is blamed.
fn bodies(path: &'static str, stream: bool) -> Vec<(Vec<u8>, u16, &'static str, Option<&'static str>)> {
    let with = |more: Value| body(path, stream, &more).to_string().into_bytes();
    let (prompt, n) = if path == GENERATE { ("token_ids", "sampling_params.n") } else { ("prompt", "n") };
    let n_zero = if path == GENERATE { json!({ "sampling_params": { "n": 0 } }) } else { json!({ "n": 0 }) };
    let refused = if path == GENERATE { "output_mode" } else { "echo" };
    let mut bodies = vec![
        (b"{".to_vec(), 400, "bad_json", None),
        // Deeper than any parser recurses, within the body's limit.
        ("[".repeat(BODY_BYTES / 2).into_bytes(), 400, "bad_json", None),
        (b"{}".to_vec(), 400, "invalid_value", Some(prompt)),
        (with(n_zero), 400, "invalid_value", Some(n)),
        (with(json!({ refused: true })), 400, "unsupported_parameter", Some(refused)),
        (with(json!({ prompt: vec![7; CONTEXT] })), 400, "context_length_exceeded", Some(prompt)),
        (with(json!({ "model": "nobody" })), 404, "model_not_found", Some("model")),
    ];
    if path == GENERATE {
        let absent = json!({
            "mm_hashes": { "image": ["unseen"] },
            "mm_placeholders": { "image": [{ "offset": 1, "length": 1 }] },
        });
        let blamed = Some("features.kwargs_data.image[0]");
        bodies.push((with(json!({ "features": absent })), 400, "media_not_cached", blamed));
    }
    bodies
}

#[tokio::test]
async fn each_kind_of_refusal_is_told_in_the_one_envelope_and_reaches_no_engine() {
    let stage = Stage::set().await;
    stage.engine.forget().await;
    for path in ROUTES {
        for stream in [false, true] {
            for (body, status, code, param) in bodies(path, stream) {
                let about = format!("{path} {}", String::from_utf8_lossy(&body[..body.len().min(300)]));
                let reply = Call::post(stage.serve.address, path, &Value::Null).body(body).send().await;
                let error = check(&about, &reply, status, code);
                assert_eq!(error["param"].as_str(), param, "{about}: {error}");
            }
        }
    }
    assert!(stage.engine.journal().await.is_empty());
    stage.assert_unhurt("all of them").await;
}

/// Calls that are turned away before a body is read, with the status and the code.
fn calls(address: SocketAddr, path: &str) -> Vec<(Call, u16, &'static str)> {
    let bare = || Call::post(address, path, &body(path, false, &json!({})));
    let of_type =
        |kind: &str| Call::get(address, path).method("POST").header("content-type", kind).body("{}");
    vec![
        (of_type("text/plain"), 415, "unsupported_media_type"),
        (bare().header("content-encoding", "gzip"), 415, "unsupported_encoding"),
        (Call::get(address, path), 405, "method_not_allowed"),
        (bare().body(vec![b' '; BODY_BYTES + 1]), 413, "body_too_large"),
        (bare().header("expect", "a miracle"), 417, "expectation_failed"),
        (bare().header("x-session-id", "a b"), 400, "invalid_header"),
        (bare().header("x-data-parallel-rank", "-1"), 400, "invalid_header"),
        (bare().header("x-tito-worker", "a b"), 400, "invalid_header"),
        (bare().header("x-tito-explain", "2"), 400, "invalid_header"),
        (bare().header("x-tito-explain", "0").header("x-tito-explain", "1"), 400, "invalid_header"),
        (bare().header("x-long", "y".repeat(40 << 10)), 431, "headers_too_large"),
        (Call::post(address, &format!("{path}/"), &json!({})), 404, "route_not_found"),
        (Call::get(address, "/v1/models/nobody/x"), 404, "model_not_found"),
    ]
}

#[tokio::test]
async fn what_is_turned_away_unread_gets_the_same_envelope() {
    let stage = Stage::set().await;
    for path in ROUTES {
        for (call, status, code) in calls(stage.serve.address, path) {
            check(&format!("{path} {code}"), &call.send().await, status, code);
        }
    }
    stage.assert_unhurt("all of them").await;
}

#[tokio::test]
async fn the_words_of_a_refusing_engine_reach_the_client() {
    let stage = Stage::set().await;
    for path in ROUTES {
        for stream in [false, true] {
            let prompt = if path == GENERATE { "token_ids" } else { "prompt" };
            let asked = body(path, stream, &json!({ prompt: [5, 1024] }));
            let error = check(path, &stage.serve.post(path, &asked).send().await, 400, "engine_refused");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("1024") && message.contains("vocabulary"), "{message}");
        }
    }
    for stream in [false, true] {
        let asked = body(COMPLETIONS, stream, &json!({ "prompt": [[1], [1024]] }));
        let reply = stage.serve.post(COMPLETIONS, &asked).send().await;
        // One prompt of several may be refused in the stream that another has begun.
        assert!(stream || reply.status == 400, "{}", reply.text());
        assert!([200, 400].contains(&reply.status), "{}", reply.text());
        assert_eq!(reply.error_code().as_deref(), Some("engine_refused"), "{}", reply.text());
    }
    stage.assert_unhurt("all of them").await;
    assert!(stage.engine.process.log().is_empty(), "{}", stage.engine.process.log());
}

/// One part of a request's media on the generate route.
fn part(kind: &str, url: &str) -> Value {
    json!({ "token_ids": [11, 1006, 13], "content_parts": [{ "type": kind, "url": url }] })
}

#[tokio::test]
async fn media_that_the_engine_cannot_use_are_the_clients_mistake_and_its_own_failures_are_not() {
    let stage = Stage::set().await;
    let ask =
        async |asked: &Value, stream| stage.serve.post(GENERATE, &body(GENERATE, stream, asked)).send().await;
    for stream in [false, true] {
        for (kind, url, said) in [
            ("image_url", "data:image/png;base64,bm9wZQ==", "image decode error"),
            ("image_url", "data:image/png;base64,@@@@", "base64 decode error"),
            ("image_url", "data:image/png", "data URL parse error"),
            (
                "audio_url",
                "data:image/png;base64,iVBORw0KGgo=",
                "placeholder token 1008 was not found for every item",
            ),
        ] {
            let error = check(url, &ask(&part(kind, url), stream).await, 400, "invalid_value");
            let message = format!("content_parts cannot be used by the engine: {said}");
            assert_eq!((&error["param"], &error["message"]), (&json!("content_parts"), &json!(message)));
        }
    }
    stage.assert_unhurt("all of them").await;
    stage.serve.process.logged("image decode error: the format is not known").await;
    stage.engine.fault(&json!({ "kind": "error", "message": "engine failed during generation" })).await;
    for stream in [false, true] {
        let fine = part("image_url", "data:image/png;base64,iVBORw0KGgo=");
        check("a failing engine", &ask(&fine, stream).await, 502, "worker_failed");
    }
}

#[tokio::test]
async fn an_engine_whose_model_takes_no_media_is_sent_none() {
    let (engine, serve) = served(&[], &[]).await;
    let tensors = json!({
        "mm_hashes": { "image": ["a"] },
        "mm_placeholders": { "image": [{ "offset": 1, "length": 2 }] },
        "kwargs_data": { "image": ["gaFhgqRkYXRhAaVmaWVsZJKnYmF0Y2hlZIGra2VlcF9vbl9jcHXC"] },
    });
    for (asked, param) in
        [(json!({ "features": tensors }), "features"), (part("image_url", "data:,"), "content_parts")]
    {
        for stream in [false, true] {
            let reply = serve.post(GENERATE, &body(GENERATE, stream, &asked)).send().await;
            let error = check(param, &reply, 400, "invalid_value");
            assert_eq!(error["param"], param, "{error}");
        }
    }
    assert!(engine.journal().await.is_empty());
}
