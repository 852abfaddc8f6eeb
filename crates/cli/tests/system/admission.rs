//! The bound on what is in flight, the queue before it, and what those who find both full are told.

use serde_json::{Value, json};

use crate::fleet::pair;
use crate::harness::{COMPLETIONS, GENERATE, assert_envelope, generate, served};

const QUEUED: &str = "tito_admission_queued_requests";
const IN_FLIGHT: &str = "tito_admission_in_flight";

#[tokio::test]
async fn targets_at_their_limits_make_requests_wait_in_a_line_that_has_a_bound() {
    let (one, other, serve) = pair(&["--target-limit", "1", "--max-queued", "1"]).await;
    for stream in [false, true] {
        one.pause().await;
        other.pause().await;
        let mut running = Vec::new();
        for count in 1..=2 {
            running.push(serve.generate("running", 4, stream).begin());
            serve.wait_metric("tito_router_tickets", &[], f64::from(count)).await;
        }
        let third = serve.generate("third", 4, stream).begin();
        serve.wait_metric("tito_router_waiting_requests", &[], 1.0).await;
        let shed = serve.generate("fourth", 4, stream).send().await;
        let error = assert_envelope("overload", &shed);
        assert_eq!((shed.status, &error["code"]), (429, &json!("overloaded")));
        assert_eq!(
            (&error["type"], shed.header("x-should-retry")),
            (&json!("rate_limit_error"), Some("true"))
        );
        assert!(one.entries("third").await.is_empty() && other.entries("third").await.is_empty());
        one.resume().await;
        let reply = third.reply().await;
        assert_eq!((reply.status, reply.tokens().len()), (200, 4), "{}", reply.text());
        assert_eq!((one.entries("third").await.len(), other.entries("third").await.len()), (1, 0));
        serve.wait_metric("tito_router_tickets", &[], 1.0).await;
        other.resume().await;
        for begun in running {
            assert_eq!(begun.reply().await.tokens().len(), 4);
        }
        for engine in [&one, &other] {
            assert_eq!(engine.entries("running").await.len(), 1, "one of them on each");
            assert!(engine.entries("fourth").await.is_empty());
            engine.forget().await;
        }
        serve.wait_metric("tito_router_tickets", &[], 0.0).await;
    }
    serve.wait_metric("tito_router_waiting_requests", &[], 0.0).await;
    serve.wait_metric("tito_admission_shed_total", &[], 0.0).await;
}

#[tokio::test]
async fn a_request_counts_as_often_as_it_continues() {
    let (engine, serve) = served(&[], &["--max-in-flight", "3"]).await;
    let continuations = |n: u32| {
        let mut body = generate("several", 8, false);
        body["sampling_params"]["n"] = json!(n);
        serve.post(GENERATE, &body)
    };
    engine.pause().await;
    let two = continuations(2).begin();
    serve.wait_metric(IN_FLIGHT, &[], 2.0).await;
    let more = continuations(2).begin();
    serve.wait_metric(QUEUED, &[], 1.0).await;
    engine.resume().await;
    for begun in [two, more] {
        let reply = begun.reply().await;
        assert_eq!((reply.status, reply.json()["choices"].as_array().unwrap().len()), (200, 2));
    }
    let reply = continuations(4).send().await;
    let error = assert_envelope("n beyond the bound", &reply);
    assert_eq!((reply.status, &error["param"]), (400, &json!("n")));
}

#[tokio::test]
async fn the_prompts_of_one_request_may_be_more_than_the_places() {
    let (_engine, serve) = served(&[], &["--max-in-flight", "1"]).await;
    let prompts: Vec<Value> = (0..5).map(|at| json!([at, at + 1])).collect();
    for stream in [false, true] {
        let body = json!({ "prompt": prompts, "max_tokens": 3, "stream": stream });
        let reply = serve.post(COMPLETIONS, &body).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let choices =
            reply.chunks().into_iter().flat_map(|chunk| chunk["choices"].as_array().unwrap().clone());
        let mut ended: Vec<Value> = choices
            .filter(|choice| choice["finish_reason"] == "length")
            .map(|choice| choice["index"].clone())
            .collect();
        ended.sort_by_key(Value::as_u64);
        assert_eq!(json!(ended), json!([0, 1, 2, 3, 4]), "{}", reply.text());
    }
}
