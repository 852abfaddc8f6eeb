//! TLS and mutual TLS, towards clients and towards engines.

use rustls::version::{TLS12, TLS13};
use tito_test_support::tls::{Authority, SERVER_NAME};

use super::client;
use crate::harness::{MockEngine, Serve, Tls, run};

async fn serve(engine: &MockEngine, pki: &Authority, args: &[&str]) -> Serve {
    let files = [pki.file("cert"), pki.file("key")];
    let tls = ["--tls-cert", &files[0], "--tls-key", &files[1]];
    let mut serve = Serve::start(&[&engine.url()], &[&tls[..], args].concat()).await;
    serve.tls = Some(client(&[pki], Some(pki), &[&TLS13]));
    serve.wait_status("/ready", 200).await;
    serve
}

/// Whether a client gets an answer.
async fn answers(serve: &Serve, tls: Option<&Tls>) -> bool {
    let call = crate::harness::Call::get(serve.address, "/v1/models");
    let call = match tls {
        Some(tls) => call.tls(tls),
        None => call,
    };
    call.try_open().await.is_ok_and(|open| open.status == 200)
}

#[tokio::test]
async fn clients_speak_tls_to_a_server_that_they_trust() {
    let (pki, stranger) = (Authority::new(), Authority::new());
    let engine = MockEngine::start(&[]).await;
    let serve = serve(&engine, &pki, &[]).await;
    for versions in [&[&TLS12], &[&TLS13]] {
        assert!(answers(&serve, Some(&client(&[&pki], None, versions))).await);
    }
    assert!(!answers(&serve, Some(&client(&[&stranger], None, &[&TLS13]))).await, "an unknown authority");
    assert!(!answers(&serve, None).await, "no TLS at all");
    for stream in [false, true] {
        let reply = serve.generate("r", 4, stream).send().await;
        assert_eq!((reply.status, reply.tokens().len()), (200, 4));
    }
}

#[tokio::test]
async fn clients_prove_who_they_are_where_they_must() {
    let (pki, stranger) = (Authority::new(), Authority::new());
    let engine = MockEngine::start(&[]).await;
    let serve = serve(&engine, &pki, &["--tls-client-ca", &pki.file("ca")]).await;
    for versions in [&[&TLS12], &[&TLS13]] {
        assert!(answers(&serve, Some(&client(&[&pki], Some(&pki), versions))).await);
        assert!(!answers(&serve, Some(&client(&[&pki], None, versions))).await, "no certificate");
        assert!(!answers(&serve, Some(&client(&[&pki], Some(&stranger), versions))).await, "a stranger's");
    }
    serve.assert_serves("r").await;
}

/// An engine behind TLS, and the address that leads to it.
async fn locked_engine(pki: &Authority, mutual: bool) -> (MockEngine, String) {
    let (certificate, key, authority) = (pki.file("cert"), pki.file("key"), pki.file("ca"));
    let mut args = vec!["--ssl-certfile", &certificate, "--ssl-keyfile", &key];
    if mutual {
        args.extend(["--ssl-ca-certs", &authority]);
    }
    let engine = MockEngine::start(&args).await;
    let url = format!("vllms://{}", engine.grpc);
    (engine, url)
}

#[tokio::test]
async fn an_engine_is_reached_over_tls_when_it_is_who_it_should_be() {
    let (pki, stranger) = (Authority::new(), Authority::new());
    let (engine, url) = locked_engine(&pki, false).await;
    for name in [None, Some(SERVER_NAME)] {
        let ca = pki.file("ca");
        let mut args = vec!["--engine-ca", &ca];
        args.extend(name.iter().flat_map(|name| ["--engine-server-name", name]));
        let serve = Serve::ready(&[&url], &args).await;
        serve.assert_serves("r").await;
        assert_eq!(serve.generate("s", 4, true).send().await.tokens().len(), 4);
    }
    let strangers = stranger.file("ca");
    let ours = pki.file("ca");
    for args in
        [&["--engine-ca", &strangers][..], &["--engine-ca", &ours, "--engine-server-name", "other.test"][..]]
    {
        let serve = Serve::start(&[&url], args).await;
        serve.process.logged("engine not reached").await;
        assert_eq!(serve.get("/ready").send().await.status, 503);
        let ready = serve.wait_note("certificate").await;
        assert_eq!(ready.status, 503, "{}", ready.text());
    }
    let plain = engine.url();
    let serve = Serve::start(&[&plain], &[]).await;
    serve.process.logged("engine not reached").await;
    assert_eq!(serve.get("/ready").send().await.status, 503, "no TLS where the engine asks for it");
}

#[tokio::test]
async fn an_engine_that_asks_who_we_are_is_told() {
    let (pki, stranger) = (Authority::new(), Authority::new());
    let (_engine, url) = locked_engine(&pki, true).await;
    let ca = pki.file("ca");
    let known = |pki: &Authority| [pki.file("client-cert"), pki.file("client-key")];
    let [certificate, key] = known(&pki);
    let args = ["--engine-ca", &ca, "--engine-cert", &certificate, "--engine-key", &key];
    let serve = Serve::ready(&[&url], &args).await;
    serve.assert_serves("r").await;
    let [certificate, key] = known(&stranger);
    for args in [
        &["--engine-ca", &ca][..],
        &["--engine-ca", &ca, "--engine-cert", &certificate, "--engine-key", &key][..],
    ] {
        let serve = Serve::start(&[&url], args).await;
        serve.process.logged("engine not reached").await;
        assert_eq!(serve.get("/ready").send().await.status, 503);
    }
}

#[tokio::test]
async fn unusable_tls_files_end_the_start() {
    let pki = Authority::new();
    let (certificate, key, other) = (pki.file("cert"), pki.file("key"), pki.file("client-key"));
    let missing = pki.file("missing");
    let cases: [&[&str]; 7] = [
        &["--tls-cert", &certificate],
        &["--tls-key", &key],
        &["--tls-cert", &missing, "--tls-key", &key],
        &["--tls-cert", &key, "--tls-key", &key],
        &["--tls-cert", &certificate, "--tls-key", &other],
        &["--tls-client-ca", &certificate],
        &["--engine-cert", &certificate],
    ];
    for case in cases {
        let args = [&["serve", "--port", "0", "--engine", "vllm://127.0.0.1:1"], case].concat();
        let ran = run(&args, &[]).await;
        assert!(ran.code.is_some_and(|code| code != 0), "{case:?}: {ran:?}");
        assert!(!ran.stdout.contains("listens") && !ran.stderr.is_empty(), "{case:?}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{case:?}: {ran:?}");
    }
    let ran = run(&["serve", "--port", "0", "--engine", "vllms://127.0.0.1:1"], &[]).await;
    assert_eq!(ran.code, Some(2), "vllms:// without an authority: {ran:?}");
}
