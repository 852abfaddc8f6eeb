//! TLS and mutual TLS, towards clients and towards engines.

use rustls::version::{TLS12, TLS13};
use tito_test_support::tls::{Authority, SERVER_NAME};

use super::client;
use crate::harness::{Call, MockEngine, Serve, Tls};

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
    let call = Call::get(serve.address, "/v1/models");
    let call = tls.map_or(call.clone(), |tls| call.tls(tls));
    call.try_open().await.is_ok_and(|open| open.status == 200)
}

#[tokio::test]
async fn clients_and_server_prove_to_each_other_who_they_are() {
    let (pki, stranger) = (Authority::new(), Authority::new());
    let engine = MockEngine::start(&[]).await;
    let open = serve(&engine, &pki, &[]).await;
    assert!(answers(&open, Some(&client(&[&pki], None, &[&TLS12]))).await);
    assert!(!answers(&open, Some(&client(&[&stranger], None, &[&TLS13]))).await, "an unknown authority");
    assert!(!answers(&open, None).await, "no TLS at all");
    let mutual = serve(&engine, &pki, &["--tls-client-ca", &pki.file("ca")]).await;
    assert!(!answers(&mutual, Some(&client(&[&pki], None, &[&TLS13]))).await, "no certificate");
    assert!(!answers(&mutual, Some(&client(&[&pki], Some(&stranger), &[&TLS12]))).await, "a stranger's");
    for (serve, stream) in [(&open, false), (&open, true), (&mutual, false), (&mutual, true)] {
        let reply = serve.generate("r", 4, stream).send().await;
        assert_eq!((reply.status, reply.tokens().len()), (200, 4));
    }
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

/// A server that does not get through to its engine.
async fn unreached(url: &str, args: &[&str]) -> Serve {
    let serve = Serve::start(&[url], args).await;
    serve.process.logged("engine not reached").await;
    assert_eq!(serve.get("/ready").send().await.status, 503);
    serve
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
    let (strangers, ours) = (stranger.file("ca"), pki.file("ca"));
    let other = ["--engine-ca", &ours, "--engine-server-name", "other.test"];
    for args in [&["--engine-ca", &strangers][..], &other] {
        let serve = unreached(&url, args).await;
        assert_eq!(serve.wait_note("certificate").await.status, 503);
    }
    // No TLS where the engine asks for it.
    unreached(&engine.url(), &[]).await;
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
        unreached(&url, args).await;
    }
}
