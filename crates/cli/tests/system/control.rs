//! Orders: their own address, their own keys, and what they do to engines and to what is known of them.

use std::net::SocketAddr;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{
    Call, EVENTS, Files, GENERATE, MockEngine, Ran, Serve, generate, run, three_blocks, wait_for,
};

/// A server that takes orders, in front of these engines, and where it takes them.
pub(crate) async fn controlled(engines: &[&MockEngine], args: &[&str]) -> (Serve, SocketAddr) {
    let urls: Vec<String> = engines.iter().map(|engine| engine.url()).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let mut serve = Serve::ready(&urls, &[&["--control-port", "0"], args].concat()).await;
    let line = serve.process.line("tito serve takes orders on ").await;
    let control = line.rsplit_once("://").unwrap().1.parse().unwrap();
    serve.wait_complete(engines.len()).await;
    (serve, control)
}

async fn reset(control: SocketAddr, args: &[&str]) -> Ran {
    let url = format!("http://{control}");
    run(&[&["workers", "reset", "--url", &url], args].concat(), &[]).await
}

/// A request pinned to an engine.
pub(crate) fn pinned(serve: &Serve, engine: &MockEngine, id: &str, max_tokens: u32) -> Call {
    let mut body = three_blocks(0);
    (body["request_id"], body["sampling_params"]["max_tokens"]) = (json!(id), json!(max_tokens));
    serve.post(GENERATE, &body).header("X-Tito-Worker", engine.grpc.to_string())
}

/// Cached tokens, as the engine reports them for one more request, and blocks, as the server knows them before it.
async fn cached(serve: &Serve, engine: &MockEngine) -> (u64, u64) {
    let worker = serve.worker(&engine.grpc.to_string()).await;
    let index = &worker["targets"][0]["index"];
    assert_eq!(index["state"], "complete", "{worker}");
    let reply = pinned(serve, engine, "ask", 1).send().await.json();
    let cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    (cached.unwrap(), index["blocks"]["gpu"].as_u64().unwrap())
}

/// Asks until the blocks of the prompt are known, so that the next answer tells of a warm cache.
async fn warm(serve: &Serve, engine: &MockEngine) {
    wait_for("a warm engine", async || (cached(serve, engine).await == (96, 3)).then_some(())).await;
}

#[tokio::test]
async fn a_reset_is_known_at_once_and_of_nobody_else() {
    let (a, b) = (MockEngine::start(EVENTS).await, MockEngine::start(EVENTS).await);
    let (serve, control) = controlled(&[&a, &b], &[]).await;
    warm(&serve, &a).await;
    warm(&serve, &b).await;
    let ran = reset(control, &[&a.grpc.to_string()]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let width = a.grpc.to_string().len();
    assert_eq!(ran.stdout, format!("{:<width$}  CACHE\n{}  dropped\n", "WORKER", a.grpc));
    assert_eq!(cached(&serve, &a).await, (0, 0), "cold, and known to be");
    assert_eq!(cached(&serve, &b).await, (96, 3), "the other is as it was");
    warm(&serve, &a).await;
    let ran = reset(control, &["--all", "--json"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap()["success"], true);
    for engine in [&a, &b] {
        assert_eq!(cached(&serve, engine).await, (0, 0));
    }
    for result in ["less_cached", "more_cached"] {
        let label = format!("result=\"{result}\"");
        serve.wait_metric("tito_router_cache_reports_total", &[&label], 0.0).await;
    }
}

/// An engine whose steps take so long.
pub(crate) async fn slow(step: &str) -> MockEngine {
    MockEngine::start(&[EVENTS, &["--speed", "1", "--step-time", step]].concat()).await
}

#[tokio::test]
async fn what_runs_protects_its_worker_or_goes_on_as_if_nothing_was() {
    let engine = slow("5ms").await;
    let (serve, control) = controlled(&[&engine], &[]).await;
    let expected = pinned(&serve, &engine, "alone", 200).send().await.tokens();
    let running = pinned(&serve, &engine, "runs", 200).begin();
    engine.wait_state("runs", "running").await;
    let kept = reset(control, &["--all"]).await;
    assert_eq!(kept.code, Some(1), "{kept:?}");
    let reason = "not dropped: its blocks are held; continuations in flight: 1\n";
    assert!(kept.stdout.contains(reason) && kept.stdout.contains("--running"), "{kept:?}");
    let dropped = reset(control, &["--all", "--running"]).await;
    assert_eq!(dropped.code, Some(0), "{dropped:?}");
    assert_eq!(engine.entries("runs").await[0].state(), "running", "or did the order come too late?");
    assert_eq!(running.reply().await.tokens(), expected);
}

/// Orders the engine to be reset while a request runs, and leaves as soon as it is paused.
async fn order_and_leave(engine: &MockEngine, control: SocketAddr) {
    engine.wait_state("runs", "running").await;
    let order = Call::get(control, "/reset_prefix_cache?reset_running_requests=true").method("POST");
    tokio::select! {
        _ = order.try_open() => panic!("the engine was done before anyone could leave"),
        () = engine.wait_paused(true) => {}
    }
}

/// Whoever gave an order may leave: the engine is paused by then, and goes on all the same.
#[tokio::test]
async fn an_order_is_carried_out_to_its_end_whoever_waits_for_it() {
    let engine = slow("2s").await;
    let (serve, control) = controlled(&[&engine], &[]).await;
    let running = pinned(&serve, &engine, "runs", 2).begin();
    order_and_leave(&engine, control).await;
    serve.wait_metric("tito_fleet_worker_paused", &[], 1.0).await;
    engine.wait_paused(false).await;
    serve.wait_metric("tito_fleet_worker_paused", &[], 0.0).await;
    let reply = running.reply().await;
    assert_eq!((reply.status, reply.tokens().len()), (200, 2), "{}", reply.text());
}

/// Nobody waits for the order, and nothing else is left to do: the engine goes on before the process ends.
#[tokio::test]
async fn a_server_that_ends_leaves_no_engine_paused() {
    let engine = slow("2s").await;
    let (mut serve, control) = controlled(&[&engine], &["--unready-delay", "0"]).await;
    let running = pinned(&serve, &engine, "runs", 2).begin();
    order_and_leave(&engine, control).await;
    drop(running);
    serve.process.signal(Signal::SIGTERM);
    serve.process.exit().await;
    engine.wait_paused(false).await;
}

#[tokio::test]
async fn orders_have_an_address_and_keys_of_their_own() {
    let engine = MockEngine::start(EVENTS).await;
    let files = Files::new();
    let operator = files.write("operator", "operator");
    let (serve, control) = controlled(&[&engine], &["--control-key-file", &operator]).await;
    let ran = reset(control, &["--all", "--key-file", &operator]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for (address, args, code, words) in [
        (control, &["--all"][..], 1, "wants a key: name a file that holds one with --key-file"),
        (serve.address, &["--all"], 1, "has no /workers/reset: is it the --control-port of tito serve"),
        (control, &["nobody", "--key-file", &operator], 1, "no worker is called nobody"),
        (engine.http, &["--all"], 1, "has no /workers/reset"),
        (control, &[], 2, "WORKER|--all"),
    ] {
        let ran = reset(address, args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {ran:?}");
    }
    let refused = Call::post(control, GENERATE, &generate("g", 1, false)).bearer("operator").send().await;
    assert_eq!(refused.status, 404, "requests are for the other address");
    engine.pause().await;
    let ran = reset(control, &["--all", "--key-file", &operator]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("not dropped: it is paused: whoever paused it"), "{ran:?}");
    engine.wait_paused(true).await;
}
