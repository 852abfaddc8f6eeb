use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tito_formats::{MEDIA_CACHE_BYTES_MAX, SamplingDefaults};

use crate::error::Error;
use crate::{keys, server};

/// Connections held at a time by those who give orders. Further ones wait.
pub(crate) const CONTROL_CONNECTIONS_MAX: usize = 64;
/// Orders carried out at a time: one that waits for an engine holds up none to others.
pub(crate) const ORDERS_MAX: usize = 8;
/// Bodies of orders that are being received, all together, in bytes.
pub(crate) const ORDERS_BYTES_MAX: usize = 4 << 20;
/// Largest body of an order, in bytes.
pub(crate) const ORDER_BYTES_MAX: usize = 64 << 10;
/// Connections held at a time. Further ones wait in the kernel's backlog, so none is refused by mistake.
pub const CONNECTIONS_MAX: usize = 65_536;
/// Largest request body, in bytes. Engines take 32 MiB of protobuf, which is about twice that as JSON text.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// Bodies being received or parsed, of all clients together, in bytes; never less than one body of the largest size.
pub const BODIES_BYTES_MAX: usize = 1 << 30;
/// Headers of one request, names and values together, in bytes.
pub const HEADER_BYTES_MAX: usize = 32 << 10;
/// Headers of one request, in fields. The HTTP library answers more than 100 without our envelope.
pub const HEADERS_MAX: usize = 64;
/// Larger bodies are parsed off the reactor threads, in bytes: parsing runs at about 1 ms per MiB.
pub(crate) const INLINE_BIND_BYTES_MAX: usize = 1 << 20;
/// Bodies larger than [`INLINE_BIND_BYTES_MAX`] that are parsed at a time; further ones wait.
pub(crate) const LARGE_BINDS_MAX: usize = 4;
/// Streams of one HTTP/2 connection. A gateway in front of us may put all its clients on a few connections.
pub(crate) const H2_STREAMS_MAX: u32 = 4_096;

/// From accept to the end of the TLS handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// From accept to the end of the first request's headers.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two requests on one connection. Longer than clients and load balancers keep theirs (60 s is common), so
/// that they close first and never send into a closing socket.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Without progress while we have bytes for a client that does not read, or while it owes us the rest of a body.
pub const CLIENT_STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// From the end of a request's headers to the end of its body, however steadily it comes.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(300);
/// A large body waits so long for its turn to be parsed.
pub const BIND_WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Between keep-alive pings on HTTP/2 connections.
pub(crate) const H2_PING_INTERVAL: Duration = Duration::from_secs(30);

/// Everything the frontend can be told. [`FrontendConfig::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct FrontendConfig {
    /// Address to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Certificate and key; absent means plain HTTP.
    pub tls: Option<TlsConfig>,
    /// Who may ask.
    pub keys: KeyConfig,
    /// Where orders are taken; absent means nowhere.
    pub control: Option<ControlConfig>,
    /// Sizes and counts.
    pub limits: Limits,
    /// Times.
    pub timeouts: Timeouts,
    /// Where sampling values come from when the client leaves them out.
    pub sampling_defaults: SamplingDefaults,
    /// Refuse unknown request fields instead of listing them in `X-Tito-Ignored`.
    pub strict: bool,
    /// Send a comment into streams that have been silent for so long; absent means never.
    pub stream_ping: Option<Duration>,
}

/// A socket of its own for orders, with keys of its own: who may send requests may not steer the fleet. TLS is as for
/// clients.
#[derive(Debug, Clone)]
pub struct ControlConfig {
    /// Address to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Who may give orders.
    pub keys: KeyConfig,
}

/// Files for TLS, all PEM.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// Certificate chain, the server's own first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities that must have signed a client's certificate; absent means clients need none.
    pub client_ca: Option<PathBuf>,
}

/// Keys that clients may present. None at all means everyone may ask.
#[derive(Debug, Clone, Default)]
pub struct KeyConfig {
    /// Keys from flags or the environment.
    pub keys: Vec<Secret>,
    /// A file with one key per line, read again when the process is told to.
    pub file: Option<PathBuf>,
    /// Whether `/metrics` needs no key.
    pub metrics_open: bool,
}

/// A text that no log and no debug output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Bounds on what clients may send and hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// [`CONNECTIONS_MAX`] by default.
    pub connections: usize,
    /// [`BODY_BYTES_MAX`] by default.
    pub body_bytes: usize,
    /// [`BODIES_BYTES_MAX`] by default.
    pub bodies_bytes: usize,
    /// [`HEADER_BYTES_MAX`] by default.
    pub header_bytes: usize,
    /// [`HEADERS_MAX`] by default.
    pub headers: usize,
    /// [`MEDIA_CACHE_BYTES_MAX`] by default: payloads of media that clients need not send again, in bytes; 0 is none.
    pub media_cache_bytes: usize,
}

/// Bounds on how long clients may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// [`HANDSHAKE_TIMEOUT`] by default.
    pub handshake: Duration,
    /// [`HEADER_TIMEOUT`] by default.
    pub header: Duration,
    /// [`IDLE_TIMEOUT`] by default.
    pub idle: Duration,
    /// [`CLIENT_STALL_TIMEOUT`] by default.
    pub client_stall: Duration,
    /// [`BODY_TIMEOUT`] by default.
    pub body: Duration,
    /// [`BIND_WAIT_TIMEOUT`] by default.
    pub bind_wait: Duration,
}

impl FrontendConfig {
    /// Reads the files it names and returns what is wrong with them and with the keys; binds nothing.
    pub fn check(&self) -> Vec<Error> {
        let mut errors = self.tls.as_ref().map(server::check_tls).unwrap_or_default();
        errors.extend(keys::check(&self.keys));
        if let Some(ControlConfig { keys, .. }) = &self.control {
            let shared = keys::check_apart(&self.keys, keys);
            let control = keys::check(keys).into_iter().chain(shared);
            errors.extend(control.map(|error| Error::Control(Box::new(error))));
        }
        errors
    }

    /// The defaults, on this address.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            tls: None,
            keys: KeyConfig::default(),
            control: None,
            limits: Limits {
                connections: CONNECTIONS_MAX,
                body_bytes: BODY_BYTES_MAX,
                bodies_bytes: BODIES_BYTES_MAX,
                header_bytes: HEADER_BYTES_MAX,
                headers: HEADERS_MAX,
                media_cache_bytes: MEDIA_CACHE_BYTES_MAX,
            },
            timeouts: Timeouts {
                handshake: HANDSHAKE_TIMEOUT,
                header: HEADER_TIMEOUT,
                idle: IDLE_TIMEOUT,
                client_stall: CLIENT_STALL_TIMEOUT,
                body: BODY_TIMEOUT,
                bind_wait: BIND_WAIT_TIMEOUT,
            },
            sampling_defaults: SamplingDefaults::Vllm,
            strict: false,
            stream_ping: None,
        }
    }
}
