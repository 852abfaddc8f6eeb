//! What an operator sees: the workers, dry runs, and where a request was sent.

use http::Request;
use serde_json::json;
use tito_engine::fake::{last, tokens};
use tito_types::{EngineError, WorkerId};

use crate::testing::engines::{Placed, held, quick, scripted};
use crate::testing::{bytes_of, check_metrics, get, json_of, metrics_text, post, setup, with};

fn ask(path: &str, body: &str, headers: &[(&'static str, &str)]) -> Request<axum::body::Body> {
    let plain = post(path, body.to_owned());
    headers.iter().fold(plain, |request, (name, value)| with(request, name, value))
}

const GENERATE: &str = "/inference/v1/generate";

#[tokio::test]
async fn the_workers_are_shown_as_they_are_told() {
    let setup = setup(quick()).await;
    let reply = setup.ask(get("/workers")).await;
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.headers()["content-type"], "application/json");
    let body = json_of(reply).await;
    assert_eq!(body["workers"][0]["id"], "w");
    assert_eq!(body["workers"][0]["targets"][0]["index"]["state"], "off");
    assert_eq!(setup.ask(post("/workers", "{}")).await.headers()["allow"], "GET,HEAD");
}

#[tokio::test]
async fn a_dry_run_tells_where_each_prompt_would_go_and_sends_nothing() {
    let engine = quick();
    let setup = setup(engine.clone()).await;
    let body = r#"{"prompts":[[1,2],[3]],"request_id":"r-9","ignored":["a.b"],"stream":true}"#;
    let reply = setup.ask(ask("/debug/route", body, &[("x-data-parallel-rank", "3")])).await;
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.headers()["x-request-id"], "r-9");
    assert_eq!(reply.headers()["x-tito-ignored"], "a.b");
    let routes = json_of(reply).await["routes"].clone();
    assert_eq!(routes.as_array().unwrap().len(), 2);
    assert_eq!(routes[0]["chosen"], json!({"worker": "w", "rank": 3}));
    assert_eq!(routes[0]["rule"], "pin");
    assert_eq!((&routes[0]["prompt_tokens"], &routes[1]["prompt_tokens"]), (&json!(2), &json!(1)));
    assert!(engine.seen().is_empty());
    let counted = r#"tito_frontend_requests_total{route="debug_route",status="2xx",code="ok"} 1"#;
    check_metrics(&setup.registry, &[counted]);
    let text = metrics_text(&setup.registry);
    assert!(!text.contains(r#"frontend_requests_total{route="generate""#), "{text}");
}

#[tokio::test]
async fn a_dry_run_refuses_what_the_route_refuses() {
    let setup = setup(quick()).await;
    for (request, status, code) in [
        (ask("/debug/route", "{", &[]), 400, "bad_json"),
        (ask("/debug/route", r#"{"prompts":[]}"#, &[]), 400, "invalid_value"),
        (ask("/debug/route", "{}", &[("x-data-parallel-rank", "one")]), 400, "invalid_header"),
        (ask("/debug/route", "{}", &[("content-encoding", "gzip")]), 415, "unsupported_encoding"),
        (get("/debug/route"), 405, "method_not_allowed"),
    ] {
        assert_eq!(setup.refusal(request).await, (status, code.to_owned()));
    }
}

#[tokio::test]
async fn only_a_client_that_asks_is_told_where_its_request_was_sent() {
    let setup = setup(Placed(quick())).await;
    let told = "worker=w5; rank=1; overlap=16; predicted=32; rule=pin";
    for stream in [false, true] {
        let body = format!(r#"{{"prompts":[[5]],"stream":{stream}}}"#);
        for (explain, expected) in [(None, None), (Some("0"), None), (Some("1"), Some(told))] {
            let mut headers = vec![("x-data-parallel-rank", "1")];
            headers.extend(explain.map(|value| ("x-tito-explain", value)));
            let reply = setup.ask(ask(GENERATE, &body, &headers)).await;
            assert_eq!(reply.status(), 200);
            let found = reply.headers().get("x-tito-route").map(|value| value.to_str().unwrap());
            assert_eq!(found, expected, "stream {stream}, explain {explain:?}");
            bytes_of(reply).await;
        }
    }
    let refused = setup.refusal(ask(GENERATE, "{}", &[("x-tito-explain", "yes")])).await;
    assert_eq!(refused, (400, "invalid_header".to_owned()));
}

#[tokio::test]
async fn a_reply_to_several_prompts_names_them_all() {
    let setup = setup(Placed(quick())).await;
    let body = r#"{"prompts":[[1],[2],[3]]}"#;
    let reply = setup.ask(ask(GENERATE, body, &[("x-tito-explain", "1")])).await;
    let all =
        [1, 2, 3].map(|worker| format!("worker=w{worker}; overlap=16; predicted=32; rule=pin")).join(", ");
    assert_eq!(reply.headers()["x-tito-route"], all.as_str());
}

#[tokio::test]
async fn a_request_that_failed_after_it_was_sent_says_where() {
    let lost = EngineError::Lost(WorkerId::new("w4"), "gone".to_owned());
    let setup = setup(Placed(scripted(vec![Ok(tokens(0, &[1])), Err(lost)]))).await;
    let reply = setup.ask(ask(GENERATE, r#"{"prompts":[[4]]}"#, &[("x-tito-explain", "1")])).await;
    assert_eq!(reply.status(), 502);
    assert_eq!(reply.headers()["x-tito-route"], "worker=w4; overlap=16; predicted=32; rule=pin");
}

#[tokio::test]
async fn a_stream_of_several_prompts_says_which_have_been_sent() {
    let (engine, mut requests) = held();
    let setup = setup(Placed(engine)).await;
    let body = r#"{"prompts":[[1],[2]],"stream":true}"#;
    let asking = setup.ask(ask(GENERATE, body, &[("x-tito-explain", "1")]));
    let answering = async {
        let first = requests.recv().await.unwrap();
        first.deltas.send(Ok(last(0, &[1], 1))).unwrap();
        first
    };
    let (reply, _first) = tokio::join!(asking, answering);
    let told = reply.headers()["x-tito-route"].to_str().unwrap();
    assert!(told.starts_with("worker=w1; "), "{told}");
}
