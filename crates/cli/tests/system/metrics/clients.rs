//! What clients do wrong: keys, handshakes, replies that are not read.

use nix::sys::signal::Signal;
use rustls::version::TLS13;
use serde_json::json;
use tito_test_support::tls::Authority;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Sheet;
use crate::harness::{Files, MockEngine, Serve, generate, served};
use crate::keys::client;
use crate::limits::sent_and_not_read;

pub(super) const FAMILIES: &[&str] = &[
    "frontend_auth_failures_total",
    "frontend_handshake_failures_total",
    "frontend_key_reloads_total",
    "frontend_stalled_clients_total",
    "frontend_tls_reloads_total",
];

#[tokio::test]
async fn keys_handshakes_and_stalls_are_counted() {
    let mut sheet = Sheet::default();
    keys(&mut sheet).await;
    handshakes(&mut sheet).await;
    stalls(&mut sheet).await;
    sheet.end(FAMILIES);
}

async fn keys(sheet: &mut Sheet) {
    let engine = MockEngine::start(&[]).await;
    let files = Files::new();
    let args = ["--api-key-file", &files.write("keys", "one\n"), "--metrics-without-key"];
    let serve = Serve::ready(&[&engine.url()], &args).await;
    for count in [1.0, 2.0] {
        assert_eq!(serve.get("/version").send().await.status, 401);
        sheet.hold(&serve, "frontend_auth_failures_total", &["reason=\"missing\""], count).await;
    }
    assert_eq!(serve.get("/version").bearer("two").send().await.status, 401);
    sheet.hold(&serve, "frontend_auth_failures_total", &["reason=\"wrong\""], 1.0).await;
    files.write("keys", "two\n");
    serve.process.signal(Signal::SIGHUP);
    sheet.hold(&serve, "frontend_key_reloads_total", &["result=\"ok\""], 1.0).await;
    assert_eq!(serve.get("/version").bearer("two").send().await.status, 200);
    files.write("keys", "");
    serve.process.signal(Signal::SIGHUP);
    sheet.hold(&serve, "frontend_key_reloads_total", &["result=\"failed\""], 1.0).await;
    sheet.hold(&serve, "frontend_key_reloads_total", &[], 2.0).await;
    assert_eq!(serve.get("/version").bearer("two").send().await.status, 200);
    sheet.hold(&serve, "frontend_auth_failures_total", &[], 3.0).await;
}

async fn handshakes(sheet: &mut Sheet) {
    let (engine, pki) = (MockEngine::start(&[]).await, Authority::new());
    let tls = ["--tls-cert", &pki.file("cert"), "--tls-key", &pki.file("key")];
    let mut serve = Serve::start(&[&engine.url()], &tls).await;
    serve.tls = Some(client(&[&pki], None, &[&TLS13]));
    for count in [1.0, 2.0] {
        let mut plain = TcpStream::connect(serve.address).await.unwrap();
        plain.write_all(b"GET /live HTTP/1.1\r\n\r\n").await.unwrap();
        sheet.hold(&serve, "frontend_handshake_failures_total", &[], count).await;
    }
    for count in [1.0, 2.0] {
        serve.process.signal(Signal::SIGHUP);
        sheet.hold(&serve, "frontend_tls_reloads_total", &["result=\"ok\""], count).await;
    }
    std::fs::write(pki.file("cert"), "none").unwrap();
    serve.process.signal(Signal::SIGHUP);
    sheet.hold(&serve, "frontend_tls_reloads_total", &["result=\"failed\""], 1.0).await;
    sheet.hold(&serve, "frontend_tls_reloads_total", &[], 3.0).await;
}

async fn stalls(sheet: &mut Sheet) {
    let (_engine, serve) = served(&["--max-model-len", "100000"], &["--client-stall-timeout", "200ms"]).await;
    let mut body = generate("slow", 90_000, true);
    body["sampling_params"]["logprobs"] = json!(20);
    for count in [1.0, 2.0] {
        let _reader = sent_and_not_read(&serve, &body).await;
        sheet.hold(&serve, "frontend_stalled_clients_total", &[], count).await;
    }
}
