//! The bound on what is in flight, the queue before it, and what those who find both full are told.

use serde_json::{Value, json};

use crate::harness::{Asked, COMPLETIONS, GENERATE, MockEngine, Reply, Serve, assert_envelope, generate};

const QUEUED: &str = "tito_admission_queued_requests";
const IN_FLIGHT: &str = "tito_admission_in_flight";

#[track_caller]
fn assert_overloaded(reply: &Reply) {
    let error = assert_envelope("overload", reply);
    assert_eq!((reply.status, &error["code"]), (429, &json!("overloaded")));
    assert_eq!(error["type"], "rate_limit_error");
    assert_eq!(reply.header("x-should-retry"), Some("true"));
}

fn continuations(id: &str, n: u32) -> Value {
    let mut body = generate(id, 8, false);
    body["sampling_params"]["n"] = json!(n);
    body
}

#[tokio::test]
async fn a_full_queue_sheds_the_next_request() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &["--max-in-flight", "1", "--max-queued", "1"]).await;
    for stream in [false, true] {
        engine.pause().await;
        let first = Asked::new(serve.generate("first", 4, stream));
        serve.wait_metric(IN_FLIGHT, &[], 1.0).await;
        let second = Asked::new(serve.generate("second", 4, stream));
        serve.wait_metric(QUEUED, &[], 1.0).await;
        assert_overloaded(&serve.generate("third", 4, stream).send().await);
        engine.resume().await;
        for reply in [first.reply().await, second.reply().await] {
            assert_eq!((reply.status, reply.tokens().len()), (200, 4));
        }
    }
    assert!(engine.entries("third").await.is_empty());
    serve.wait_metric("tito_admission_shed_total", &[], 2.0).await;
}

#[tokio::test]
async fn targets_at_their_limits_make_requests_wait_in_a_line_that_has_a_bound() {
    let (one, other) = (MockEngine::start(&[]).await, MockEngine::start(&[]).await);
    let limits = ["--target-limit", "1", "--max-queued", "1"];
    let serve = Serve::ready(&[&one.url(), &other.url()], &limits).await;
    serve.wait_metric("tito_fleet_worker_ready", &[], 2.0).await;
    for stream in [false, true] {
        one.pause().await;
        other.pause().await;
        let mut running = Vec::new();
        for count in 1..=2 {
            running.push(Asked::new(serve.generate("running", 4, stream)));
            serve.wait_metric("tito_router_tickets", &[], f64::from(count)).await;
        }
        let third = Asked::new(serve.generate("third", 4, stream));
        serve.wait_metric("tito_router_waiting_requests", &[], 1.0).await;
        assert_overloaded(&serve.generate("fourth", 4, stream).send().await);
        assert!(one.entries("third").await.is_empty() && other.entries("third").await.is_empty());
        one.resume().await;
        let reply = third.reply().await;
        assert_eq!((reply.status, reply.tokens().len()), (200, 4), "{}", reply.text());
        assert_eq!((one.entries("third").await.len(), other.entries("third").await.len()), (1, 0));
        serve.wait_metric("tito_router_tickets", &[], 1.0).await;
        other.resume().await;
        for asked in running {
            assert_eq!(asked.reply().await.tokens().len(), 4);
        }
        for engine in [&one, &other] {
            assert_eq!(engine.entries("running").await.len(), 1, "one of them on each");
            engine.forget().await;
        }
        serve.wait_metric("tito_router_tickets", &[], 0.0).await;
    }
    serve.wait_metric("tito_router_waiting_requests", &[], 0.0).await;
    serve.wait_metric("tito_admission_shed_total", &[], 0.0).await;
}

#[tokio::test]
async fn a_request_counts_as_often_as_it_continues() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &["--max-in-flight", "3"]).await;
    engine.pause().await;
    let two = Asked::new(serve.post(GENERATE, &continuations("two", 2)));
    serve.wait_metric(IN_FLIGHT, &[], 2.0).await;
    let more = Asked::new(serve.post(GENERATE, &continuations("more", 2)));
    serve.wait_metric(QUEUED, &[], 1.0).await;
    engine.resume().await;
    for asked in [two, more] {
        let reply = asked.reply().await;
        assert_eq!((reply.status, reply.json()["choices"].as_array().unwrap().len()), (200, 2));
    }
    let reply = serve.post(GENERATE, &continuations("four", 4)).send().await;
    let error = assert_envelope("n beyond the bound", &reply);
    assert_eq!((reply.status, &error["param"]), (400, &json!("n")));
}

#[tokio::test]
async fn the_prompts_of_one_request_may_be_more_than_the_places() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &["--max-in-flight", "1"]).await;
    let prompts: Vec<Value> = (0..5).map(|at| json!([at, at + 1])).collect();
    let whole = json!({ "prompt": prompts, "max_tokens": 3, "temperature": 0, "return_token_ids": true });
    let mut streamed = whole.clone();
    streamed["stream"] = json!(true);
    let reply = serve.post(COMPLETIONS, &whole).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let choices = reply.json()["choices"].as_array().unwrap().clone();
    assert_eq!(choices.len(), 5);
    let stream = serve.post(COMPLETIONS, &streamed).send().await;
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(index), &json!("length")));
        let chunks = stream.events().into_iter().map(|event| event["choices"][0].clone());
        let own = chunks.filter(|chunk| chunk["index"] == json!(index));
        let ids: Vec<Value> = own.flat_map(|chunk| chunk["token_ids"].as_array().unwrap().clone()).collect();
        assert_eq!(json!(ids), choice["token_ids"]);
    }
}

#[tokio::test]
async fn draining_sends_the_queue_away() {
    let engine = MockEngine::start(&[]).await;
    let limits = ["--max-in-flight", "1", "--unready-delay", "0"];
    let mut serve = Serve::ready(&[&engine.url()], &limits).await;
    engine.pause().await;
    let first = Asked::new(serve.generate("first", 4, true));
    serve.wait_metric(IN_FLIGHT, &[], 1.0).await;
    let queued: Vec<Asked> =
        [false, true].into_iter().map(|stream| Asked::new(serve.generate("queued", 4, stream))).collect();
    serve.wait_metric(QUEUED, &[], 2.0).await;
    serve.process.signal(nix::sys::signal::Signal::SIGTERM);
    for asked in queued {
        let reply = asked.reply().await;
        let error = assert_envelope("draining", &reply);
        assert_eq!((reply.status, &error["code"]), (503, &json!("draining")));
    }
    engine.resume().await;
    assert_eq!(first.reply().await.tokens().len(), 4);
    assert_eq!(serve.process.exit().await.code(), Some(0));
    assert!(engine.entries("queued").await.is_empty());
}
