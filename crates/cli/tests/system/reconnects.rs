//! Clients and engines that come and go by the thousand: afterwards the process holds what it held before.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::{COMPLETIONS, GENERATE, MockEngine, Serve, generate, served, wait_for};

/// Connections of clients, and how many of them there are at a time.
const CONNECTIONS: usize = 2_000;
const AT_ONCE: usize = 50;
/// Times an engine goes and comes back.
const FLAPS: u32 = 25;
/// Requests before anything is counted.
const WARM_UP: usize = 16;
/// Series of metrics that may appear late, for causes that are rare: far fewer than one per flap.
const RARE_SERIES: usize = 8;

/// Open descriptors of the server: its sockets, and a few files.
fn descriptors(serve: &Serve) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", serve.process.pid())).unwrap().count()
}

/// Waits until the server has no more descriptors than before.
async fn wait_descriptors(serve: &Serve, before: usize) {
    wait_for(&format!("at most {before} descriptors"), async || (descriptors(serve) <= before).then_some(()))
        .await;
}

/// One connection that ends in one of the ways in which connections end.
async fn come_and_go(serve: &Serve, number: usize) {
    match number % 6 {
        // After a whole reply.
        0 => assert_eq!(serve.generate("r", 20, number.is_multiple_of(4)).send().await.status, 200),
        // In the middle of a reply.
        1 => {
            let mut open = serve.generate("r", 2_000, true).open().await;
            open.event().await.unwrap();
        }
        // After a refusal.
        2 => assert_eq!(serve.post(COMPLETIONS, &json!({})).send().await.status, 400),
        // Before a reply has begun, in the middle of a body and of a head, and without a word.
        3 => {
            let body = generate("r", 2_000, false).to_string();
            let length = body.len();
            let text =
                format!("POST {GENERATE} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}");
            let ends = [text.len(), text.len() - 9, 20, 0];
            let mut socket = TcpStream::connect(serve.address).await.unwrap();
            socket.write_all(&text.as_bytes()[..ends[number / 6 % ends.len()]]).await.unwrap();
        }
        // With a reset instead of an end.
        4 => {
            let socket = TcpStream::connect(serve.address).await.unwrap();
            socket.set_zero_linger().unwrap();
        }
        // As something that is not HTTP.
        _ => {
            let mut socket = TcpStream::connect(serve.address).await.unwrap();
            socket.write_all(b"\x16\x03\x01\x02\0\x01").await.unwrap();
        }
    }
}

#[tokio::test]
async fn clients_by_the_thousand_leave_no_socket_and_no_request() {
    let engine = MockEngine::start(&[]).await;
    let serve = std::sync::Arc::new(Serve::ready(&[&engine.url()], &[]).await);
    // More than there are connections to the engine, which are made when they are first used.
    let warm = (0..WARM_UP).map(|_| serve.generate("warm", 50, true).begin());
    for asked in warm.collect::<Vec<_>>() {
        assert_eq!(asked.reply().await.status, 200);
    }
    let before = descriptors(&serve);
    let mut clients = JoinSet::new();
    for number in 0..CONNECTIONS {
        if clients.len() == AT_ONCE {
            clients.join_next().await.unwrap().unwrap();
        }
        let serve = std::sync::Arc::clone(&serve);
        clients.spawn(async move { come_and_go(&serve, number).await });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    serve.wait_metric("tito_frontend_requests_in_flight", &[], 0.0).await;
    serve.wait_metric("tito_admission_in_flight", &[], 0.0).await;
    // The one that asks.
    serve.wait_metric("tito_frontend_connections_open", &[], 1.0).await;
    serve.wait_metric("tito_runtime_task_panics_total", &[], 0.0).await;
    wait_descriptors(&serve, before).await;
    for state in ["running", "queued"] {
        engine.wait_count("r", state, 0).await;
    }
    serve.assert_serves("after").await;
}

#[tokio::test]
async fn engines_that_come_and_go_leave_no_socket_and_no_series() {
    let events = r#"{"enable_kv_cache_events":true,"endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}"#;
    let (engine, serve) = served(&["--kv-events-config", events], &[]).await;
    let complete = async || {
        serve.wait_metric("tito_fleet_kv_complete", &[], 1.0).await;
        serve.assert_serves("r").await;
    };
    let series = async || serve.get("/metrics").send().await.text().lines().count();
    complete().await;
    let mut before = (descriptors(&serve), series().await);
    for flap in 1..=FLAPS {
        let fault = engine.fault(&json!({ "kind": "drain" })).await;
        serve.wait_status("/ready", 503).await;
        engine.unset(fault).await;
        serve.wait_status("/ready", 200).await;
        complete().await;
        if flap == 2 {
            // What is made once, at the first loss, is there from now on.
            before = (descriptors(&serve), series().await);
        }
    }
    serve.wait_metric("tito_fleet_worker_connections_total", &[], f64::from(FLAPS + 1)).await;
    wait_descriptors(&serve, before.0).await;
    let (now, then) = (series().await, before.1);
    assert!(now <= then + RARE_SERIES, "{then} series have become {now}");
    serve.wait_metric("tito_runtime_task_panics_total", &[], 0.0).await;
}
