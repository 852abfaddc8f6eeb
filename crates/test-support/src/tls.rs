//! Certificates made for one test.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;

use crate::http::Tls;

/// The name in every server certificate, beside the loopback address.
pub const SERVER_NAME: &str = "engine.test";

/// Every version that the library speaks.
pub const ALL_VERSIONS: &[&SupportedProtocolVersion] = rustls::ALL_VERSIONS;

/// A certificate and its key, both as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// An authority, what it has signed, and a folder with the files `ca`, `cert`, `key`, `client-cert` and `client-key`.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
    /// What a client of this authority presents.
    pub client: Identity,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new authority with a certificate for a server and one for a client.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let client = sign(&issuer, &["client.test"]);
        let authority = Self { issuer, folder: TempDir::new().unwrap(), client };
        let server = authority.sign();
        authority.write("cert", &server.certificate);
        authority.write("key", &server.key);
        authority.write("ca", &authority.pem());
        authority.write("client-cert", &authority.client.certificate);
        authority.write("client-key", &authority.client.key);
        authority
    }

    /// One more certificate for a server.
    pub fn sign(&self) -> Identity {
        sign(&self.issuer, &[SERVER_NAME, "localhost", "127.0.0.1"])
    }

    /// The authority's own certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Writes or replaces a file of the folder.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Where a file of the folder is, or would be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pem"))
    }

    /// The same as text, as a flag takes it.
    pub fn file(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

/// How a client speaks that trusts these authorities, presents `identity`, offers the protocols of `alpn` and speaks `versions`
/// of TLS.
pub fn client(
    trusted: &[&Authority],
    identity: Option<&Identity>,
    alpn: &[&str],
    versions: &[&'static SupportedProtocolVersion],
) -> Tls {
    let mut roots = RootCertStore::empty();
    for authority in trusted {
        roots.add(authority.issuer.der().clone()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Tls { config: Arc::new(config), name: SERVER_NAME }
}

fn sign(issuer: &CertifiedIssuer<'static, KeyPair>, names: &[&str]) -> Identity {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, issuer).unwrap().pem();
    Identity { certificate, key: key.serialize_pem() }
}
