//! Connections to the target, kept alive and reused.

mod tls;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::config::Trust;
use crate::failure::{Failure, FailureKind};
use crate::target::Endpoint;

use tls::Tls;
pub use tls::TlsError;

/// How a connection is made.
pub(crate) trait Transport: Send + Sync + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn connect(&self) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

/// Connections over TCP to an address that was looked up once, with TLS where the URL asks for it.
pub(crate) struct Network {
    addresses: Vec<SocketAddr>,
    tls: Option<Tls>,
}

impl Network {
    /// Looks the host up, and reads what its certificate is checked with.
    pub(crate) async fn resolve(endpoint: &Endpoint, trust: &Trust) -> Result<Self, ResolveError> {
        let tls = endpoint.tls.then(|| Tls::try_new(trust, &endpoint.host)).transpose()?;
        let addresses: Vec<_> = lookup_host((endpoint.host.as_str(), endpoint.port)).await?.collect();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into());
        }
        Ok(Self { addresses, tls })
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.addresses.iter().copied()
    }
}

/// Why a target cannot be reached, whatever it does.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error(transparent)]
    Name(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Transport for Network {
    type Io = Either<TcpStream, TlsStream<TcpStream>>;

    async fn connect(&self) -> io::Result<Self::Io> {
        let stream = TcpStream::connect(self.addresses.as_slice()).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Either::Left(stream)),
            Some(tls) => Ok(Either::Right(tls.connect(stream).await?)),
        }
    }
}

/// A connection that can take one request at a time. Dropping it before its reply is read closes it.
pub(crate) type Connection = http1::SendRequest<Full<Bytes>>;

/// Idle connections and the tasks behind all of them. Holds as many as there were requests in flight at once, which
/// the load bounds; dropping the pool closes them.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    transport: T,
    /// Most recently used last, and used first, so that spare connections can idle out.
    idle: Mutex<Vec<Connection>>,
    tasks: Mutex<JoinSet<()>>,
    opened: AtomicU64,
}

impl<T: Transport> Pool<T> {
    pub(crate) fn new(transport: T) -> Self {
        let (idle, tasks) = (Mutex::default(), Mutex::default());
        Self { transport, idle, tasks, opened: AtomicU64::new(0) }
    }

    /// Connections opened so far.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    /// Sends over an idle connection, or a new one when there is none. An idle connection that turns out closed before
    /// any byte was written costs nothing: the request moves on to the next. Give the connection back with
    /// [`Pool::release`] once the reply is read to its end.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Connection), Failure> {
        loop {
            let idle = self.idle.lock().expect("no holder panics").pop();
            let was_idle = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => self.open().await?,
            };
            if let Err(error) = connection.ready().await {
                if was_idle {
                    continue;
                }
                return Err(Failure::from_error(FailureKind::Connect, &error));
            }
            match connection.try_send_request(request).await {
                Ok(response) => return Ok((response, connection)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) if was_idle => request = unsent,
                    _ => return Err(Failure::from_error(FailureKind::ConnectionLost, &error.into_error())),
                },
            }
        }
    }

    /// Takes a connection back for the next request.
    pub(crate) fn release(&self, connection: Connection) {
        if !connection.is_closed() {
            self.idle.lock().expect("no holder panics").push(connection);
        }
    }

    async fn open(&self) -> Result<Connection, Failure> {
        let io = self.transport.connect().await;
        let io = io.map_err(|error| Failure::from_error(FailureKind::Connect, &error))?;
        let (connection, driver) = http1::handshake(TokioIo::new(io))
            .await
            .map_err(|error| Failure::from_error(FailureKind::Connect, &error))?;
        self.opened.fetch_add(1, Relaxed);
        let mut tasks = self.tasks.lock().expect("no holder panics");
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            // Its error reaches whoever waits for the reply; with nobody waiting it does not matter.
            let _ = driver.await;
        });
        Ok(connection)
    }
}
