use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

use crate::harness::Tls;

/// The name in every server certificate, beside the loopback address.
pub(super) const SERVER_NAME: &str = "engine.test";

/// An authority with a certificate for a server and one for a client, on disk.
pub(super) struct Pki {
    folder: TempDir,
    authority: String,
    client: (String, String),
}

impl Pki {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let issue = |names: &[&str]| {
            let key = KeyPair::generate().unwrap();
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let signed = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
            (signed.pem(), key.serialize_pem())
        };
        let pki = Self {
            folder: tempfile::tempdir().unwrap(),
            authority: authority.pem(),
            client: issue(&["client.test"]),
        };
        let server = issue(&[SERVER_NAME, "127.0.0.1"]);
        for (name, text) in [
            ("ca", &pki.authority),
            ("cert", &server.0),
            ("key", &server.1),
            ("client-cert", &pki.client.0),
            ("client-key", &pki.client.1),
        ] {
            std::fs::write(pki.path(name), text).unwrap();
        }
        pki
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pem"))
    }

    /// `ca`, `cert`, `key`, `client-cert` or `client-key`, as a flag takes it.
    pub(super) fn file(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Puts the certificate and the key of another authority's server where ours are.
    pub(super) fn replace_server(&self, by: &Self) {
        for name in ["cert", "key"] {
            std::fs::copy(by.path(name), self.path(name)).unwrap();
        }
    }

    /// A client that trusts this authority and presents a certificate of that one.
    pub(super) fn client(
        &self,
        known_as: Option<&Self>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Tls {
        Self::client_of(&[self], known_as, versions)
    }

    /// The same with several authorities that it trusts.
    pub(super) fn client_of(
        trusted: &[&Self],
        known_as: Option<&Self>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Tls {
        let mut roots = RootCertStore::empty();
        for authority in trusted {
            roots.add(CertificateDer::from_pem_slice(authority.authority.as_bytes()).unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match known_as {
            None => config.with_no_client_auth(),
            Some(Self { client: (certificate, key), .. }) => config
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        Tls { config: Arc::new(config), name: SERVER_NAME }
    }
}
