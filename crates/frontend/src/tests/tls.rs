mod reload;

use rustls::HandshakeKind;
use rustls::pki_types::ServerName;
use tito_runtime::Chain;
use tito_test_support::http::{Raw, get_text, post_text};
use tito_test_support::tls::{self, ALL_VERSIONS, Authority, Identity};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::testing::engines::quick;
use crate::testing::{Running, run_with, setup_with};
use crate::{FrontendConfig, TlsConfig};

fn config(authority: &Authority) -> TlsConfig {
    TlsConfig { certificate: authority.path("cert"), key: authority.path("key"), client_ca: None }
}

/// A client that trusts this authority.
fn client(authority: &Authority, identity: Option<&Identity>, alpn: &[&str]) -> TlsConnector {
    TlsConnector::from(tls::client(&[authority], identity, alpn, ALL_VERSIONS).config)
}

/// Connects as a client that trusts this authority.
async fn trusting(
    authority: &Authority,
    running: &Running,
    identity: Option<&Identity>,
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    connect(&client(authority, identity, alpn), running).await
}

async fn connect(client: &TlsConnector, running: &Running) -> std::io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(running.addr).await?;
    client.connect(ServerName::try_from("localhost").unwrap(), tcp).await
}

/// How the handshake of a client went that is served. In TLS 1.3 the client has finished before the server judges it: a
/// refusal shows when it reads.
async fn was_served(client: &TlsConnector, running: &Running) -> Option<HandshakeKind> {
    let socket = connect(client, running).await.ok()?;
    let kind = socket.get_ref().1.handshake_kind();
    let mut client = Raw::over(socket);
    client.try_send(get_text("/live").replace("Host: t", "Host: t\r\nConnection: close")).await;
    client.rest().await.starts_with(b"HTTP/1.1 200").then_some(kind?)
}

async fn serve(tls: TlsConfig) -> Running {
    run_with(quick(), |config| config.tls = Some(tls)).await
}

#[tokio::test]
async fn https_serves_like_http_and_offers_both_versions() {
    let authority = Authority::new();
    let running = serve(config(&authority)).await;
    for (offered, chosen) in
        [(&[][..], None), (&["http/1.1"], Some("http/1.1")), (&["h2", "http/1.1"], Some("h2"))]
    {
        let socket = trusting(&authority, &running, None, offered).await.unwrap();
        assert_eq!(socket.get_ref().1.alpn_protocol(), chosen.map(str::as_bytes));
        if chosen != Some("h2") {
            let mut client = Raw::over(socket);
            client.send(post_text("/inference/v1/generate", r#"{"stream":true}"#)).await;
            client.until(b"data: [DONE]\n\n").await;
        }
    }
}

#[tokio::test]
async fn with_a_client_authority_only_its_clients_are_served() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let running = serve(TlsConfig { client_ca: Some(authority.path("ca")), ..config(&authority) }).await;
    for (identity, served) in [(Some(authority.sign()), true), (Some(stranger.sign()), false), (None, false)]
    {
        let client = client(&authority, identity.as_ref(), &["http/1.1"]);
        assert_eq!(was_served(&client, &running).await.is_some(), served);
    }
    running.wait_for_metric("tito_frontend_handshake_failures_total 2").await;
}

#[tokio::test]
async fn what_is_not_tls_ends_its_connection_and_nothing_else() {
    let authority = Authority::new();
    let running = serve(config(&authority)).await;
    let mut client = running.client(get_text("/live")).await;
    let answer = client.rest().await;
    assert!(!answer.starts_with(b"HTTP"), "plain text on a TLS port: {answer:?}");
    running.wait_for_metric("tito_frontend_handshake_failures_total 1").await;
    let mut client = Raw::over(trusting(&authority, &running, None, &[]).await.unwrap());
    client.send(get_text("/live")).await;
    assert_eq!(client.reply().await.status, 200);
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends_its_connection() {
    let authority = Authority::new();
    let tls = config(&authority);
    let running = run_with(quick(), |config| {
        config.tls = Some(tls);
        config.timeouts.handshake = std::time::Duration::from_millis(100);
    })
    .await;
    assert!(Raw::connect(running.addr).await.rest().await.is_empty());
    running.wait_for_metric("tito_frontend_handshake_failures_total 1").await;
}

#[tokio::test]
async fn bad_files_are_named_before_anything_is_bound() {
    let authority = Authority::new();
    let other = Authority::new();
    authority.write("empty", "");
    let good = config(&authority);
    let certificate = |certificate| TlsConfig { certificate, ..good.clone() };
    for (config, expected) in [
        (certificate("/nonexistent.pem".into()), "/nonexistent.pem: cannot be read"),
        (certificate(authority.path("empty")), "empty.pem: holds no certificate"),
        (TlsConfig { key: authority.path("cert"), ..good.clone() }, "cert.pem: cannot be read as PEM"),
        (TlsConfig { key: other.path("key"), ..good.clone() }, "key.pem: cannot be used"),
        (
            TlsConfig { client_ca: Some(authority.path("empty")), ..good.clone() },
            "empty.pem: holds no certificate",
        ),
    ] {
        let error = setup_with(quick(), |all| all.tls = Some(config)).await.err().expect("bad files");
        let chain = Chain(&error).to_string();
        assert!(chain.starts_with("TLS file ") && chain.contains(expected), "{chain}");
    }
}

#[tokio::test]
async fn a_check_names_every_bad_file_at_once() {
    let authority = Authority::new();
    let other = Authority::new();
    authority.write("empty", "");
    let check = |tls: TlsConfig, expected: &[&str]| {
        let listen = "127.0.0.1:0".parse().unwrap();
        let errors = FrontendConfig { tls: Some(tls), ..FrontendConfig::new(listen) }.check();
        assert_eq!(errors.len(), expected.len(), "{errors:?}");
        for (error, expected) in errors.iter().zip(expected) {
            let chain = Chain(error).to_string();
            assert!(chain.contains(expected), "{chain}");
        }
    };
    let empty = || authority.path("empty");
    check(config(&authority), &[]);
    check(
        TlsConfig { certificate: empty(), key: empty(), client_ca: Some(empty()) },
        &["holds no certificate", "cannot be read as PEM", "holds no certificate"],
    );
    check(TlsConfig { key: other.path("key"), ..config(&authority) }, &["key.pem: cannot be used"]);
}
