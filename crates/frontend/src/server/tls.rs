//! From PEM files to how TLS connections are accepted.
//!
//! It must not know sockets or HTTP; every mistake in a file is found here, before anything listens or changes.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::config::TlsConfig;
use crate::error::{Error, TlsError};

/// Every file that cannot be used; where each by itself can, whether they fit each other.
pub(crate) fn check(config: &TlsConfig) -> Vec<Error> {
    let provider = Arc::new(ring::default_provider());
    let at = |path: &Path, source| Error::Tls { path: path.to_owned(), source };
    let authority = config.client_ca.as_deref();
    let files = [
        certificates(&config.certificate).err().map(|source| at(&config.certificate, source)),
        private_key(&config.key).err().map(|source| at(&config.key, source)),
        authority.and_then(|path| verifier(path, provider).err().map(|source| at(path, source))),
    ];
    let files: Vec<_> = files.into_iter().flatten().collect();
    if files.is_empty() { server_config(config).err().into_iter().collect() } else { files }
}

/// Reads the files; everything that can be wrong with them is found here.
pub(super) fn server_config(config: &TlsConfig) -> Result<ServerConfig, Error> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Tls { path, source }
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Unusable)
        .map_err(at(&config.certificate))?;
    let builder = match &config.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(verifier(path, provider).map_err(at(path))?),
    };
    let chain = certificates(&config.certificate).map_err(at(&config.certificate))?;
    let key = private_key(&config.key).map_err(at(&config.key))?;
    let mut tls =
        builder.with_single_cert(chain, key).map_err(TlsError::Unusable).map_err(at(&config.key))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(TlsError::Pem)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(TlsError::Pem)?;
    if certificates.is_empty() { Err(TlsError::Empty) } else { Ok(certificates) }
}

/// Admits clients whose certificate one of these authorities has signed.
fn verifier(path: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(TlsError::Unusable)?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(TlsError::Verifier)
}
