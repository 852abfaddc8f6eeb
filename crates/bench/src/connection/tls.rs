//! TLS towards a target: whom it trusts, and the handshake.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::config::Trust;

/// Why no TLS connection can be made to a target, whatever it does.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of trusted certificates cannot be read, or is no PEM.
    #[error("{}: cannot be read as PEM certificates", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The file holds no certificate, or one that cannot be trusted.
    #[error("{}: holds no usable certificate", path.display())]
    Roots {
        /// The file.
        path: PathBuf,
    },
    /// The host of the URL is neither a name nor an address that a certificate can be for.
    #[error("`{host}` cannot be checked against a certificate")]
    Host {
        /// As in the URL.
        host: String,
    },
    /// The library refuses the settings.
    #[error("TLS cannot be set up")]
    Unusable(#[source] rustls::Error),
}

/// What turns a TCP connection to one host into a TLS connection.
pub(super) struct Tls {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl Tls {
    /// Reads the file of trusted certificates, if one is named.
    pub(super) fn try_new(trust: &Trust, host: &str) -> Result<Self, TlsError> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| TlsError::Host { host: host.to_owned() })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?;
        let mut config = match trust {
            Trust::PublicRoots => builder.with_root_certificates(public_roots()),
            Trust::File(path) => builder.with_root_certificates(roots(path)?),
            Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
        }
        .with_no_client_auth();
        // One request at a time per connection, as over plain TCP.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), host: name })
    }

    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.host.clone(), stream).await
    }
}

/// Mozilla's, as compiled in: the same on every machine.
fn public_roots() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| TlsError::Pem { path: path.to_owned(), source })?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 { Err(TlsError::Roots { path: path.to_owned() }) } else { Ok(roots) }
}

/// Takes every certificate. The handshake itself is checked, so that a broken server is still found.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
