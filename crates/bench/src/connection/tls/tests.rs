//! A TLS server of a private authority, and clients that trust it, another one, or anyone.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Tls, TlsError};
use crate::config::{Api, BenchConfig, Trust};
use crate::progress::{Progress, Silent};
use crate::run::{Error, run};
use crate::testing::{Answer, OverTcp, STREAM, TWO_TOKENS, config};

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
        std::fs::write(authority.file(), authority.issuer.pem()).unwrap();
        authority
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// What a server for `localhost` accepts connections with.
    fn acceptor(&self) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let chain = vec![params.signed_by(&key, &self.issuer).unwrap().der().clone()];
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key);
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }
}

fn silent() -> Arc<dyn Progress> {
    Arc::new(Silent)
}

/// A configuration for this server under the name that its certificate is for.
fn towards(server: &OverTcp, trust: Trust, stream: bool) -> BenchConfig {
    let mut config = config(Api::Generate, stream);
    config.target.url = server.url.replace("http://127.0.0.1", "https://localhost");
    config.target.trust = trust;
    config
}

#[tokio::test]
async fn replies_over_tls_are_measured_like_others() {
    let authority = Authority::new();
    for (stream, answer) in [(false, Answer::json(TWO_TOKENS)), (true, Answer::events(&STREAM))] {
        let server = OverTcp::with_tls(authority.acceptor(), move |_| answer.clone()).await;
        for trust in [Trust::File(authority.file()), Trust::Anyone] {
            let checked = trust != Trust::Anyone;
            let report = run(&towards(&server, trust, stream), &silent()).await.unwrap();
            assert!(report.ok(), "{:?}", report.failures);
            assert_eq!(report.target.certificates_checked, Some(checked));
        }
    }
}

/// The one failure of a run against a server that should not be trusted.
async fn refused(config: &BenchConfig) -> String {
    let report = run(config, &silent()).await.unwrap();
    assert!(!report.ok());
    report.failures["connect"].example.clone()
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_or_for_another_name_fails_the_request() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = OverTcp::with_tls(authority.acceptor(), |_| Answer::json(TWO_TOKENS)).await;
    for trust in [Trust::File(other.file()), Trust::PublicRoots] {
        let words = refused(&towards(&server, trust, false)).await;
        assert!(words.contains("invalid peer certificate"), "{words}");
    }
    let mut config = towards(&server, Trust::File(authority.file()), false);
    config.target.url = server.url.replace("http://", "https://");
    let words = refused(&config).await;
    assert!(words.contains("certificate not valid for name"), "{words}");
}

#[tokio::test]
async fn a_server_without_tls_fails_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(Api::Generate, false);
    config.target.url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    config.target.trust = Trust::Anyone;
    let plain = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    };
    let (words, ()) = tokio::join!(refused(&config), plain);
    assert!(words.contains("received corrupt message"), "{words}");
}

#[tokio::test]
async fn a_file_that_trusts_nobody_ends_the_run_before_anything_is_sent() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (path, words) in [
        (folder.path().join("none.pem"), "none.pem: cannot be read as PEM certificates"),
        (file("empty.pem", ""), "empty.pem: holds no usable certificate"),
        (file("bad.pem", bad), "bad.pem: holds no usable certificate"),
    ] {
        let mut config = config(Api::Generate, false);
        config.target.url = "https://localhost:1".to_owned();
        config.target.trust = Trust::File(path);
        let Err(Error::Tls(error)) = run(&config, &silent()).await else { panic!("{words}") };
        assert!(error.to_string().ends_with(words), "{error}");
    }
    assert!(matches!(Tls::try_new(&Trust::Anyone, "a b"), Err(TlsError::Host { .. })));
}
