use std::sync::Arc;

use axum::body::Body;
use futures_util::StreamExt;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tito_engine::fake::{Fake, Script, last, tokens};
use tito_test_support::http::check_envelope;
use tito_types::{Catalog, EngineError};

use crate::Route;
use crate::testing::engines::{opaque, quick, refusing};
use crate::testing::{
    bytes_of, check_lines, check_metrics, get, json_of, one_model, post, setup, setup_at, setup_with, with,
};

const GENERATE: &str = "/inference/v1/generate";

#[tokio::test]
async fn a_whole_reply_has_its_length_and_the_requests_id() {
    let request = with(post(GENERATE, r#"{"request_id":"from-body"}"#), "x-request-id", "from-header");
    let response = setup(quick()).await.ask(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["x-request-id"], "from-header");
    let length = http_body::Body::size_hint(response.body()).exact();
    let body = bytes_of(response).await;
    assert_eq!(length, Some(body.len() as u64));
    assert_eq!(str::from_utf8(&body).unwrap(), r#"{"request_id":"from-header","tokens":[7,8]}"#);
}

#[tokio::test]
async fn the_id_comes_from_header_then_body_then_us() {
    let setup = setup(quick()).await;
    let long = "x".repeat(129);
    for (header, body, expected) in [
        (Some("h-1"), json!({ "request_id": "b-1" }), Some("h-1")),
        (None, json!({ "request_id": "b-1" }), Some("b-1")),
        (Some("two words"), json!({ "request_id": "b-1" }), Some("b-1")),
        (Some(""), json!({ "request_id": "b-1" }), Some("b-1")),
        (Some(long.as_str()), json!({}), None),
        (None, json!({}), None),
    ] {
        let mut request = post(GENERATE, body.to_string());
        if let Some(id) = header {
            request = with(request, "x-request-id", id);
        }
        let response = setup.ask(request).await;
        let used = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        assert!(expected.map_or(used.len() == 32, |expected| used == expected), "{used} for {header:?}");
        assert_eq!(json_of(response).await["request_id"], used);
    }
}

#[tokio::test]
async fn every_failure_is_in_the_envelope_with_an_id() {
    let setup = setup(quick()).await;
    let plain = |name: &'static str, value: &str| with(post(GENERATE, "{}"), name, value);
    for (request, status, code) in [
        (post(GENERATE, r#"{"token_ids":[1"#), 400, "bad_json"),
        (post(GENERATE, ""), 400, "bad_json"),
        (post(GENERATE, r#"{"prompts":[]}"#), 400, "invalid_value"),
        (plain("content-type", "text/plain"), 415, "unsupported_media_type"),
        (plain("content-encoding", "gzip"), 415, "unsupported_encoding"),
        (plain("x-data-parallel-rank", "minus one"), 400, "invalid_header"),
        (plain("x-session-id", "two words"), 400, "invalid_header"),
        (plain("expect", "a-miracle"), 417, "expectation_failed"),
        (post("/v1/chat/completions", "{}"), 404, "route_not_found"),
        (get("/"), 404, "route_not_found"),
        (get("/v1/models/"), 404, "route_not_found"),
        (get("/v1/models/other"), 404, "model_not_found"),
        (get("/v1/models/%ff"), 404, "model_not_found"),
        (bare(Method::PUT, "/v1/completions"), 405, "method_not_allowed"),
        (bare(Method::DELETE, "/ready"), 405, "method_not_allowed"),
        (post("/live", "{}"), 405, "method_not_allowed"),
    ] {
        let shown = format!("{} {}", request.method(), request.uri());
        assert_eq!(setup.refusal(request).await, (status, code.to_owned()), "{shown}");
    }
}

/// A request with nothing but a method and a path.
fn bare(method: Method, path: &str) -> Request<Body> {
    Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn an_engines_failure_has_a_status_and_no_inner_words() {
    for (error, status, retry, part) in [
        (EngineError::Overloaded("queue of 9 on w7".to_owned()), 429, Some("1"), "\"overloaded\""),
        (EngineError::NoWorker("w7 is gone".to_owned()), 503, Some("5"), "\"no_worker\""),
        (EngineError::Truncated, 502, None, "\"worker_lost\""),
        (EngineError::Refused("token id 99 is none".to_owned()), 400, None, "\"token id 99 is none\""),
    ] {
        let response = setup(refusing(error)).await.ask(post(GENERATE, "{}")).await;
        let found = response.headers().get("retry-after").map(|value| value.to_str().unwrap());
        assert_eq!((response.status().as_u16(), found), (status, retry), "{part}");
        let body = json_of(response).await.to_string();
        assert!(body.contains(part) && !body.contains("w7"), "{body}");
    }
}

#[tokio::test]
async fn methods_that_a_route_lacks_are_told_those_it_has() {
    let setup = setup(quick()).await;
    for (method, path, status, allow) in [
        (Method::GET, GENERATE, 405, Some("POST")),
        (Method::OPTIONS, GENERATE, 204, Some("POST")),
        (Method::OPTIONS, "/live", 204, Some("GET,HEAD")),
        (Method::POST, "/v1/models", 405, Some("GET,HEAD")),
        (Method::HEAD, "/v1/models", 200, None),
        (Method::HEAD, "/live", 200, None),
        (Method::HEAD, GENERATE, 405, Some("POST")),
    ] {
        let response = setup.ask(bare(method.clone(), path)).await;
        let allowed = response.headers().get("allow").map(|value| value.to_str().unwrap());
        assert_eq!((response.status().as_u16(), allowed), (status, allow), "{method} {path}");
        if method == Method::HEAD {
            assert!(bytes_of(response).await.is_empty(), "{path}");
        }
    }
}

#[tokio::test]
async fn session_and_rank_reach_the_engine_and_ignored_fields_the_client() {
    let engine = quick();
    let setup = setup(engine.clone()).await;
    let many: Vec<String> = (0..1000).map(|index| format!("field_{index}")).collect();
    let ask = async |ignored: Value, session: &[(&'static str, &str)]| {
        let plain = post("/v1/completions", json!({ "ignored": ignored }).to_string());
        let request = session.iter().fold(plain, |request, (name, value)| with(request, name, value));
        let response = setup.ask(request).await;
        response.headers().get("x-tito-ignored").map(|value| value.to_str().unwrap().to_owned())
    };
    let session = [("x-session-id", "rollout-7"), ("x-data-parallel-rank", "3")];
    assert_eq!(ask(json!([]), &session).await, None);
    assert_eq!(ask(json!(["a.b", "c[0]"]), &[]).await.as_deref(), Some("a.b, c[0]"));
    assert_eq!(ask(json!(["ü\r\nx"]), &[]).await.as_deref(), Some("???x"));
    let header = ask(json!(many), &[]).await.unwrap();
    assert!(header.len() <= 4096 && header.ends_with("..."), "{header}");
    let seen = engine.seen();
    assert_eq!((seen[0].session.as_deref(), seen[0].rank), (Some("rollout-7"), Some(3)));
    assert_eq!((seen[3].session.as_deref(), seen[3].rank), (None, None));
}

#[tokio::test]
async fn several_prompts_make_one_reply_with_a_choice_for_each() {
    // The later the prompt, the sooner it ends: what comes first is not the first choice.
    let engine = Fake::new(|request| {
        let [prompt, count] = request.prompt[..] else { panic!("two ids") };
        let ids: Vec<u32> = (1..=count).map(|nth| prompt * 100 + nth).collect();
        let (end, all) = ids.split_last().unwrap();
        let items = all.iter().map(|id| Ok(tokens(0, &[*id]))).chain([Ok(last(0, &[*end], count))]);
        Script { items: items.collect(), ..Script::default() }
    });
    let asked = r#"{"prompts":[[1,3],[2,2],[3,1]]}"#;
    let response = setup(engine.clone()).await.ask(post(GENERATE, asked)).await;
    let expected = json!({ "0": [101, 102, 103], "1": [201, 202], "2": [301] });
    assert_eq!(json_of(response).await["tokens"], expected);
    let sent: Vec<Vec<u32>> = engine.seen().iter().map(|request| request.prompt.to_vec()).collect();
    assert_eq!(sent, [[1, 3], [2, 2], [3, 1]]);
}

#[tokio::test]
async fn a_large_body_is_understood_like_a_small_one() {
    let prompt: Vec<u32> = (0..300_000).collect();
    let engine = quick();
    let setup = setup(engine.clone()).await;
    let body = json!({ "prompts": [prompt] }).to_string();
    assert!(body.len() > crate::config::INLINE_BIND_BYTES_MAX);
    assert_eq!(setup.ask(post(GENERATE, body.clone())).await.status(), StatusCode::OK);
    assert_eq!(engine.seen()[0].prompt.len(), 300_000);
    let broken = post(GENERATE, body[..body.len() - 1].to_owned());
    assert_eq!(setup.refusal(broken).await, (400, "bad_json".to_owned()));
}

#[tokio::test]
async fn a_bug_is_a_500_that_is_counted_and_the_next_request_is_served() {
    let setup = setup(quick()).await;
    for padding in [0, crate::config::INLINE_BIND_BYTES_MAX] {
        let body = format!(r#"{{"panic":true,"padding":"{}"}}"#, "x".repeat(padding));
        assert_eq!(setup.refusal(post(GENERATE, body)).await, (500, "internal".to_owned()));
    }
    assert_eq!(setup.ask(post(GENERATE, "{}")).await.status(), StatusCode::OK);
    let counted = r#"tito_frontend_requests_total{route="generate",status="5xx",code="internal"} 2"#;
    check_metrics(&setup.registry, &["tito_runtime_task_panics_total 2", counted]);
}

#[tokio::test]
async fn a_large_opaque_value_is_relayed_without_a_copy() {
    const BYTES: usize = 50 << 20;
    let blob = format!("\"{}\"", "A".repeat(BYTES - 2));
    let address = blob.as_ptr() as usize;
    let response = setup(opaque(blob)).await.ask(post(GENERATE, "{}")).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    let frames: Vec<_> = response.into_body().into_data_stream().map(Result::unwrap).collect().await;
    let moved = frames.iter().any(|data| data.as_ptr() as usize == address && data.len() == BYTES);
    assert!(moved, "the value was copied");
    assert!(frames.len() > 1, "and stands in a reply");
}

#[tokio::test]
async fn models_are_listed_while_they_are_routable() {
    let setup = setup(quick()).await;
    let body = json_of(setup.ask(get("/v1/models")).await).await;
    let ids: Vec<&Value> = body["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["toy", "org/alias"]);
    for path in ["/v1/models/toy", "/v1/models/org/alias", "/v1/models/org%2Falias"] {
        assert_eq!(json_of(setup.ask(get(path)).await).await["max_model_len"], 64, "{path}");
    }
    let mut gone = one_model();
    gone.models[0].routable = false;
    setup.catalog.send_replace(Arc::new(gone));
    assert_eq!(json_of(setup.ask(get("/v1/models")).await).await["data"], json!([]));
    assert_eq!(setup.refusal(get("/v1/models/toy")).await, (503, "model_unavailable".to_owned()));
}

#[tokio::test]
async fn readiness_follows_the_models_and_says_why() {
    let setup = setup(quick()).await;
    let body = json_of(setup.ask(get("/ready")).await).await;
    assert_eq!(body, json!({ "status": "ready", "models": ["toy"], "notes": [] }));
    let odd = "w1: \"quoted\" \\ and\nbroken\u{1} ü";
    for (reasons, expected) in
        [(vec![], "no engine has been reached yet"), (vec!["w1: refused"], "w1: refused"), (vec![odd], odd)]
    {
        let reasons = reasons.into_iter().map(str::to_owned).collect();
        setup.catalog.send_replace(Arc::new(Catalog { models: Vec::new(), reasons }));
        for path in ["/ready", "/readyz", "/readiness", "/health"] {
            let response = setup.ask(get(path)).await;
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
            assert_eq!(response.headers()["retry-after"], "5");
            let body = json_of(response).await;
            check_envelope("a failure", &body);
            assert_eq!(body["reasons"], json!([expected]));
        }
        for path in ["/live", "/healthz", "/liveness"] {
            assert_eq!(setup.ask(get(path)).await.status(), StatusCode::OK, "{path}");
        }
    }
}

#[tokio::test]
async fn metrics_are_openmetrics_and_count_what_happened() {
    let setup = setup(quick()).await;
    for request in [post(GENERATE, "{}"), post(GENERATE, "{"), get("/nowhere")] {
        setup.ask(request).await;
    }
    let response = setup.ask(get("/metrics")).await;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(response.headers()["content-type"], content_type);
    let text = String::from_utf8(bytes_of(response).await).unwrap();
    assert!(text.ends_with("# EOF\n"));
    check_lines(
        &text,
        &[
            r#"tito_frontend_requests_total{route="generate",status="2xx",code="ok"} 1"#,
            r#"tito_frontend_requests_total{route="generate",status="4xx",code="bad_json"} 1"#,
            r#"tito_frontend_requests_total{route="unknown",status="4xx",code="route_not_found"} 1"#,
            r#"tito_frontend_requests_in_flight{route="generate"} 0"#,
            r#"tito_frontend_prompt_tokens_total{route="generate"} 3"#,
            r#"tito_frontend_output_tokens_total{route="generate"} 2"#,
            r#"tito_frontend_request_duration_seconds_count{route="generate"} 2"#,
            r#"tito_frontend_time_to_first_token_seconds_count{route="generate"} 1"#,
            r#"tito_frontend_inter_token_seconds_count{route="generate"} 1"#,
            r#"tito_frontend_body_bytes_total{route="generate",direction="received"} 3"#,
        ],
    );
}

#[tokio::test]
async fn a_path_is_served_once() {
    const OTHER: (&str, Route) = ("/other", Route::Completions);
    for (formats, taken) in [
        (vec![OTHER], None),
        (vec![OTHER, (GENERATE, Route::Generate), OTHER], Some("/other")),
        (vec![(GENERATE, Route::Generate), (GENERATE, Route::Completions)], Some(GENERATE)),
        (vec![OTHER, ("/v1/models", Route::Generate)], Some("/v1/models")),
        (vec![("/debug/route", Route::Generate)], Some("/debug/route")),
    ] {
        let refused = setup_at(quick(), &formats, |_| {}).await.err().map(|error| error.to_string());
        assert_eq!(refused, taken.map(|path| format!("path {path} is served twice")), "{formats:?}");
    }
}

#[tokio::test]
async fn an_address_that_is_not_ours_is_named() {
    let taken = setup_with(quick(), |config| config.listen = "192.0.2.1:1".parse().unwrap()).await;
    let error = taken.err().expect("that address is not ours");
    assert_eq!(error.to_string(), "listen on 192.0.2.1:1; another port may be free");
}
