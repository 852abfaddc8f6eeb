use std::time::Duration;

use tito_types::{Pixels, WorkerId};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::address::authority;

/// Credit each stream may have outstanding, in bytes: bounds what one slow reader can make us hold.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Credit of a whole connection, in bytes: the protocol's maximum, so that slow readers never block the others.
const CONNECTION_WINDOW_BYTES: u32 = (1 << 31) - 1;
/// How often an idle or silent connection is probed; thousands of requests are silent for minutes.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// How long a probe may go unanswered before the connection is given up.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Streams that we ended and whose last messages may still arrive, per connection: those of so many are dropped silently,
/// those of others are answered with one more reset each.
const RESET_STREAMS_REMEMBERED: usize = 4096;

/// How to reach and use one vLLM gRPC address.
#[derive(Debug, Clone)]
pub struct VllmConfig {
    /// Host name or address; an IPv6 address stands without brackets.
    pub host: String,
    /// gRPC port.
    pub port: u16,
    /// Present when the engine speaks TLS.
    pub tls: Option<TlsConfig>,
    /// HTTP/2 connections that requests are spread over; at least 1.
    pub channels: usize,
    /// Limit for establishing a connection, and for each control call.
    pub connect_timeout: Duration,
    /// How long a request may make no progress while the engine is not paused; `None` waits for ever.
    pub stall_timeout: Option<Duration>,
    /// Largest response message accepted, in bytes.
    pub response_bytes_max: usize,
    /// What the engine expects inside media features, where the operator says it: nothing on the wire does.
    pub pixels: Option<Pixels>,
    /// Where the engine serves its metrics, where the operator says it: they tell what other clients have sent to it.
    pub metrics: Option<MetricsAddress>,
}

/// An address that answers plain HTTP with Prometheus text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsAddress {
    /// `host:port`, with brackets where the host is an IPv6 address.
    pub authority: String,
    /// The path, beginning with a slash.
    pub path: String,
}

/// Client side of TLS towards an engine. PEM text.
#[derive(Clone)]
pub struct TlsConfig {
    /// Certificates that may sign the engine's.
    pub ca_pem: String,
    /// Our certificate and key, when the engine asks for one.
    pub identity_pem: Option<(String, String)>,
    /// Name to expect in the engine's certificate, when it is not the host.
    pub server_name: Option<String>,
}

impl std::fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsConfig").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// The address or the TLS material cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("engine {authority}")]
pub struct Error {
    authority: String,
    #[source]
    source: tonic::transport::Error,
}

impl VllmConfig {
    /// `host:port`, with brackets where the host is an IPv6 address. Also the worker's id.
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }

    /// The worker this address leads to.
    pub fn worker(&self) -> WorkerId {
        WorkerId::new(&self.authority())
    }

    pub(crate) fn endpoint(&self) -> Result<Endpoint, Error> {
        let authority = self.authority();
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let build = || -> Result<Endpoint, tonic::transport::Error> {
            let endpoint = Endpoint::from_shared(format!("{scheme}://{authority}"))?
                .connect_timeout(self.connect_timeout)
                .tcp_nodelay(true)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                .keep_alive_while_idle(true)
                .http2_max_concurrent_reset_streams(RESET_STREAMS_REMEMBERED)
                // Each late message for a stream that is no longer remembered counts as an error of the engine's, for as long
                // as the connection lives. Readers that leave early would make it 1,024 in time, and end all other calls.
                .http2_max_local_error_reset_streams(None);
            match &self.tls {
                Some(tls) => endpoint.tls_config(tls.client(&self.host)),
                None => Ok(endpoint),
            }
        };
        build().map_err(|source| Error { authority: authority.clone(), source })
    }
}

impl TlsConfig {
    fn client(&self, host: &str) -> ClientTlsConfig {
        let config = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.ca_pem))
            .domain_name(self.server_name.as_deref().unwrap_or(host));
        match &self.identity_pem {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        }
    }
}
