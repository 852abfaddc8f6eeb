//! `SIGHUP` while requests come in: keys and certificates change, and no request notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use rustls::version::TLS13;
use serde_json::json;
use tito_test_support::tls::Authority;
use tokio::task::JoinSet;

use super::client;
use crate::harness::{MockEngine, Serve, Tls, generate};

/// Times the files change under load.
const RELOADS: u32 = 12;
/// Clients that send one request after the other, each on a connection of its own.
const CLIENTS: usize = 4;

/// Clients that go on until they are stopped, and how many replies they have had.
struct Load {
    stop: Arc<AtomicBool>,
    replies: Arc<AtomicUsize>,
    clients: JoinSet<()>,
}

impl Load {
    /// Starts clients with a key that is valid all the time. Every reply must be whole.
    fn start(serve: &Serve) -> Self {
        let (stop, replies) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let call = serve.generate(&format!("load-{number}"), 4, number % 2 == 0).bearer("stays");
            let (stop, replies) = (Arc::clone(&stop), Arc::clone(&replies));
            clients.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let reply = call.send().await;
                    assert_eq!((reply.status, reply.tokens().len()), (200, 4), "{}", reply.text());
                    replies.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { stop, replies, clients }
    }

    fn replies(&self) -> usize {
        self.replies.load(Ordering::Relaxed)
    }

    /// Waits until another `count` replies have come.
    async fn more(&self, count: usize) {
        let before = self.replies();
        crate::harness::wait_for("more replies", async || (self.replies() >= before + count).then_some(()))
            .await;
    }

    async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
    }
}

/// Puts the certificate and the key of an authority's server where those of `files` are.
fn replace_server(files: &Authority, by: &Authority) {
    for name in ["cert", "key"] {
        std::fs::copy(by.path(name), files.path(name)).unwrap();
    }
}

/// Whether a client that trusts `tls` only, with this key, is served.
async fn served(serve: &Serve, tls: &Tls, key: &str) -> bool {
    let call = crate::harness::Call::get(serve.address, "/v1/models").tls(tls).bearer(key);
    call.try_open().await.is_ok_and(|open| open.status == 200)
}

#[tokio::test]
async fn keys_and_certificates_change_under_load_and_no_request_fails() {
    let (first, second, files) = (Authority::new(), Authority::new(), Authority::new());
    replace_server(&files, &first);
    let keys = files.file("keys");
    let write_keys = |changing: &str| std::fs::write(&keys, format!("stays\n{changing}\n")).unwrap();
    write_keys("odd");
    let engine = MockEngine::start(&[]).await;
    let (cert, key) = (files.file("cert"), files.file("key"));
    let args = ["--tls-cert", &cert, "--tls-key", &key, "--api-key-file", &keys, "--metrics-without-key"];
    let mut serve = Serve::start(&[&engine.url()], &args).await;
    serve.tls = Some(client(&[&first, &second], None, &[&TLS13]));
    serve.wait_status("/ready", 200).await;

    engine.fault(&json!({ "kind": "slow", "delay_ms": 20, "request": "long" })).await;
    let mut long =
        serve.post(crate::harness::GENERATE, &generate("long", 2_000, true)).bearer("odd").open().await;
    assert_eq!(long.status, 200);
    long.event().await.unwrap();
    let load = Load::start(&serve);
    for reload in 1..=RELOADS {
        let (server, key) = if reload % 2 == 0 { (&first, "odd") } else { (&second, "even") };
        replace_server(&files, server);
        write_keys(key);
        serve.process.signal(Signal::SIGHUP);
        for metric in ["tito_frontend_key_reloads_total", "tito_frontend_tls_reloads_total"] {
            serve.wait_metric(metric, &["result=\"ok\""], f64::from(reload)).await;
        }
        load.more(CLIENTS).await;
    }
    for _ in 0..3 {
        long.event().await.expect("the stream of the first connection goes on, though its key was replaced");
    }
    let (of_first, of_second) = (client(&[&first], None, &[&TLS13]), client(&[&second], None, &[&TLS13]));
    assert!(served(&serve, &of_first, "odd").await && served(&serve, &of_first, "stays").await);
    assert!(!served(&serve, &of_first, "even").await, "a key that is no longer in the file");
    assert!(!served(&serve, &of_second, "odd").await, "a certificate that was replaced");

    // One file of the pair is there and the other is not yet: what is in force stays.
    std::fs::copy(second.file("cert"), files.file("cert")).unwrap();
    serve.process.signal(Signal::SIGHUP);
    serve.wait_metric("tito_frontend_tls_reloads_total", &["result=\"failed\""], 1.0).await;
    load.more(CLIENTS).await;
    assert!(served(&serve, &of_first, "odd").await);
    drop(long);
    engine.wait_count("long", "aborted", 1).await;
    load.stop().await;
    serve.wait_metric("tito_frontend_requests_total", &["route=\"generate\"", "status=\"5xx\""], 0.0).await;
    serve.wait_metric("tito_runtime_task_panics_total", &[], 0.0).await;
}
