mod reload;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tito_runtime::Chain;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::testing::engines::quick;
use crate::testing::raw::{Raw, get_text, post_text};
use crate::testing::{Running, setup_with};
use crate::{FrontendConfig, TlsConfig};

/// A certificate authority, what it has signed, and a folder with the server's files.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { issuer, folder: TempDir::new().unwrap() };
        let (certificate, key) = authority.sign();
        authority.write("server.pem", &certificate);
        authority.write("server.key", &key);
        authority.write("ca.pem", &authority.issuer.pem());
        authority
    }

    /// A certificate for localhost and its key, as PEM.
    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn config(&self) -> TlsConfig {
        TlsConfig { certificate: self.path("server.pem"), key: self.path("server.key"), client_ca: None }
    }

    /// Connects as a client that trusts this authority.
    async fn connect(
        &self,
        running: &Running,
        identity: Option<(String, String)>,
        alpn: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        connect(&self.client(identity, alpn), running).await
    }

    /// A client that trusts this authority.
    fn client(&self, identity: Option<(String, String)>, alpn: &[&str]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

async fn connect(client: &TlsConnector, running: &Running) -> std::io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(running.addr).await?;
    client.connect(ServerName::try_from("localhost").unwrap(), tcp).await
}

async fn serve(tls: TlsConfig) -> Running {
    setup_with(quick(), |config| config.tls = Some(tls)).await.unwrap().run()
}

#[tokio::test]
async fn https_serves_like_http_and_offers_both_versions() {
    let authority = Authority::new();
    let running = serve(authority.config()).await;
    for (offered, chosen) in
        [(&[][..], None), (&["http/1.1"], Some("http/1.1")), (&["h2", "http/1.1"], Some("h2"))]
    {
        let socket = authority.connect(&running, None, offered).await.unwrap();
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
    let running = serve(TlsConfig { client_ca: Some(authority.path("ca.pem")), ..authority.config() }).await;
    for (identity, served) in [(Some(authority.sign()), true), (Some(stranger.sign()), false), (None, false)]
    {
        // In TLS 1.3 the client has finished before the server judges it: a refusal shows when it reads.
        let socket = authority.connect(&running, identity, &["http/1.1"]).await;
        let answer = match socket {
            Ok(socket) => {
                let mut client = Raw::over(socket);
                client.try_send(get_text("/live").replace("Host: t", "Host: t\r\nConnection: close")).await;
                client.rest().await
            }
            Err(_) => Vec::new(),
        };
        assert_eq!(answer.starts_with(b"HTTP/1.1 200"), served, "{}", String::from_utf8_lossy(&answer));
    }
    running.wait_for_metric("tito_frontend_handshake_failures_total 2").await;
}

#[tokio::test]
async fn what_is_not_tls_ends_its_connection_and_nothing_else() {
    let authority = Authority::new();
    let running = serve(authority.config()).await;
    let mut client = Raw::connect(running.addr).await;
    client.send(get_text("/live")).await;
    let answer = client.rest().await;
    assert!(!answer.starts_with(b"HTTP"), "plain text on a TLS port: {answer:?}");
    running.wait_for_metric("tito_frontend_handshake_failures_total 1").await;
    let mut client = Raw::over(authority.connect(&running, None, &[]).await.unwrap());
    client.send(get_text("/live")).await;
    assert_eq!(client.reply().await.status(), 200);
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends_its_connection() {
    let authority = Authority::new();
    let tls = authority.config();
    let setup = setup_with(quick(), |config| {
        config.tls = Some(tls);
        config.timeouts.handshake = std::time::Duration::from_millis(100);
    });
    let running = setup.await.unwrap().run();
    assert!(Raw::connect(running.addr).await.rest().await.is_empty());
    running.wait_for_metric("tito_frontend_handshake_failures_total 1").await;
}

#[tokio::test]
async fn bad_files_are_named_before_anything_is_bound() {
    let authority = Authority::new();
    let other = Authority::new();
    authority.write("empty.pem", "");
    let good = authority.config();
    for (config, expected) in [
        (
            TlsConfig { certificate: "/nonexistent.pem".into(), ..good.clone() },
            "/nonexistent.pem: cannot be read",
        ),
        (
            TlsConfig { certificate: authority.path("empty.pem"), ..good.clone() },
            "empty.pem: holds no certificate",
        ),
        (
            TlsConfig { key: authority.path("server.pem"), ..good.clone() },
            "server.pem: cannot be read as PEM",
        ),
        (TlsConfig { key: other.path("server.key"), ..good.clone() }, "server.key: cannot be used"),
        (
            TlsConfig { client_ca: Some(authority.path("empty.pem")), ..good },
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
    authority.write("empty.pem", "");
    let check = |tls: TlsConfig, expected: &[&str]| {
        let listen = "127.0.0.1:0".parse().unwrap();
        let errors = FrontendConfig { tls: Some(tls), ..FrontendConfig::new(listen) }.check();
        assert_eq!(errors.len(), expected.len(), "{errors:?}");
        for (error, expected) in errors.iter().zip(expected) {
            let chain = Chain(error).to_string();
            assert!(chain.contains(expected), "{chain}");
        }
    };
    let empty = || authority.path("empty.pem");
    check(authority.config(), &[]);
    check(
        TlsConfig { certificate: empty(), key: empty(), client_ca: Some(empty()) },
        &["holds no certificate", "cannot be read as PEM", "holds no certificate"],
    );
    check(TlsConfig { key: other.path("server.key"), ..authority.config() }, &["server.key: cannot be used"]);
}
