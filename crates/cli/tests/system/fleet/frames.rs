//! Replies of an engine that are wrong, odd, or early.

use serde_json::{Value, json};

use crate::harness::{COMPLETIONS, GENERATE, MockEngine, Reply, Serve, assert_envelope, generate};

/// A request on either route that asks for log-probs.
fn scored(path: &str, stream: bool) -> Value {
    if path == COMPLETIONS {
        return json!({ "prompt": [11, 12], "max_tokens": 4, "logprobs": 2, "stream": stream });
    }
    let mut body = generate("r", 4, stream);
    body["sampling_params"]["logprobs"] = json!(2);
    body
}

#[track_caller]
fn assert_failed(about: &str, reply: &Reply, code: &str) {
    assert_eq!(reply.error_code().as_deref(), Some(code), "{about}: {}", reply.text());
    if reply.header("content-type") == Some("application/json") {
        assert_envelope(about, reply);
        assert_eq!(reply.status, 502, "{about}");
    }
}

#[tokio::test]
async fn a_wrong_frame_fails_its_request_and_nothing_else() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let frames = [
        ("malformed", "worker_failed"),
        ("token_count", "worker_protocol"),
        ("missing_finish", "worker_lost"),
        ("index", "worker_protocol"),
    ];
    for (frame, code) in frames {
        for at_token in [0, 2] {
            for (path, stream) in
                [(GENERATE, false), (GENERATE, true), (COMPLETIONS, false), (COMPLETIONS, true)]
            {
                let about = format!("{frame} at {at_token}, {path}, stream {stream}");
                let fault = json!({ "kind": "bad_frame", "frame": frame, "at_token": at_token, "count": 1 });
                engine.fault(&fault).await;
                let reply = serve.post(path, &scored(path, stream)).send().await;
                assert_failed(&about, &reply, code);
                let errors = reply.chunks().iter().filter(|chunk| chunk.get("error").is_some()).count();
                assert_eq!(errors, 1, "{about}");
                serve.assert_serves("next").await;
            }
        }
    }
    serve.wait_metric("tito_admission_in_flight", &[], 0.0).await;
    serve.wait_metric("tito_runtime_task_panics_total", &[], 0.0).await;
}

#[tokio::test]
async fn a_log_prob_is_a_number_or_the_request_fails() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    for value in ["nan", "inf"] {
        for (path, stream) in [(GENERATE, false), (GENERATE, true), (COMPLETIONS, false), (COMPLETIONS, true)]
        {
            engine.fault(&json!({ "kind": "logprob", "value": value, "at_token": 1, "count": 1 })).await;
            let reply = serve.post(path, &scored(path, stream)).send().await;
            assert_failed(&format!("{value}, {path}, stream {stream}"), &reply, "worker_protocol");
            serve.assert_serves("next").await;
        }
    }
    for stream in [false, true] {
        engine.fault(&json!({ "kind": "logprob", "value": "-inf", "at_token": 1, "count": 1 })).await;
        let reply = serve.post(GENERATE, &scored(GENERATE, stream)).send().await;
        assert_eq!(reply.status, 200);
        let rows: Vec<Value> = reply
            .chunks()
            .iter()
            .flat_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array().cloned().unwrap())
            .collect();
        assert_eq!(rows.len(), 4);
        assert!(reply.text().contains("\"logprob\":-9999.0"), "{}", reply.text());
        for (at, row) in rows.iter().enumerate() {
            assert_eq!(row["logprob"] == json!(-9999.0), at == 1, "{row}");
        }
        engine.fault(&json!({ "kind": "logprob", "value": "-inf", "at_token": 1, "count": 1 })).await;
        let reply = serve.post(COMPLETIONS, &scored(COMPLETIONS, stream)).send().await;
        let rows: Vec<Value> = reply
            .chunks()
            .iter()
            .flat_map(|chunk| chunk["choices"][0]["logprobs"]["token_logprobs"].as_array().cloned().unwrap())
            .collect();
        assert_eq!((rows.len(), &rows[1]), (4, &json!(-9999.0)), "{}", reply.text());
    }
}

#[tokio::test]
async fn an_aborted_generation_is_a_reply_with_what_there_is() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    for at_token in [0_usize, 2] {
        for stream in [false, true] {
            engine.fault(&json!({ "kind": "abort", "at_token": at_token, "count": 1 })).await;
            let reply = serve.post(GENERATE, &scored(GENERATE, stream)).send().await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            assert_eq!(reply.finish_reason().as_deref(), Some("abort"), "{}", reply.text());
            assert_eq!(reply.tokens().len(), at_token);
            if !stream {
                let body = reply.json();
                let rows = body["choices"][0]["logprobs"]["content"].as_array().map(Vec::len);
                assert_eq!(rows, Some(at_token), "a list, empty where no token came: {body}");
                assert_eq!(body["usage"]["completion_tokens"], at_token);
                assert_eq!(body["choices"][0]["stop_reason"], Value::Null);
            }
            engine.fault(&json!({ "kind": "abort", "at_token": at_token, "count": 1 })).await;
            let reply = serve.post(COMPLETIONS, &scored(COMPLETIONS, stream)).send().await;
            assert_eq!((reply.status, reply.finish_reason().as_deref()), (200, Some("abort")));
        }
    }
}
