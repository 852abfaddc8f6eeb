//! One connection from accept to close: TLS, HTTP/1 or HTTP/2, idleness, the drain, a client that left.
//!
//! It must not know what requests mean: they go to the router, and only their beginning and end count here.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use prometheus_client::metrics::gauge::Gauge;
use socket2::{SockRef, TcpKeepalive};
use tito_runtime::Stage;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;
use tracing::debug;

use super::Server;
use super::client::{Client, Exchange, Overdue, Patience};
use super::executor::TaskExecutor;
use super::io::{ClientIo, Socket};
use crate::config::{H2_PING_INTERVAL, H2_STREAMS_MAX};

/// Buffered per connection by the HTTP library, each way (bytes). Headers above our own limit still fit, so that
/// they are answered in the envelope.
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// From an unanswered HTTP/2 ping to the end of the connection.
const H2_PING_TIMEOUT: Duration = Duration::from_secs(20);
/// A silent peer is probed by the kernel after this, then at [`PROBE_INTERVAL`]: a machine that vanished says nothing.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// Serves one connection to its end.
pub(super) async fn serve(server: Arc<Server>, tcp: TcpStream) {
    let app = &server.app;
    let _open = Open::begin(&app.metrics.connections.open);
    // Both only help; a socket that refuses is about to fail anyway.
    let _ = tcp.set_nodelay(true);
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_INTERVAL);
    let _ = SockRef::from(&tcp).set_tcp_keepalive(&probes);
    let socket = Arc::new(Socket::new(tcp));
    let client = Arc::new(Client::new(server.busy.clone()));
    let stalled = app.metrics.connections.stalled.clone();
    let io = ClientIo::new(Arc::clone(&socket), Arc::clone(&client), app.timeouts.client_stall, stalled);
    tokio::select! {
        biased;
        () = server.end.cancelled() => {}
        () = async {
            match &server.tls {
                None => drive(&server, io, &socket, &client).await,
                // A connection keeps what was in force when it was accepted.
                Some(tls) => match timeout(app.timeouts.handshake, TlsAcceptor::from(tls.current()).accept(io)).await {
                    Ok(Ok(io)) => drive(&server, io, &socket, &client).await,
                    failed => {
                        app.metrics.connections.handshake_failures.inc();
                        let error = failed.map_or_else(|_| "timed out".to_owned(), |io| match io {
                            Ok(_) => String::new(),
                            Err(error) => error.to_string(),
                        });
                        debug!(error, "TLS handshake failed");
                    }
                },
            }
        } => {}
    }
}

/// Speaks HTTP/1 or HTTP/2, whichever the client begins with.
async fn drive<I>(server: &Arc<Server>, io: I, socket: &Socket, client: &Arc<Client>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let timeouts = &server.app.timeouts;
    let builder = builder(server);
    let service = Requests { router: server.router.clone(), client: Arc::clone(client) };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut draining = pin!(server.app.shutdown.reached(Stage::Draining));
    let (mut closing, mut told) = (false, false);
    let mut look_again = pin!(sleep_until(Instant::now() + timeouts.header));
    loop {
        let next = poll_fn(|context| {
            loop {
                // A connection that has not asked yet may still ask for liveness, once.
                if closing && !told && client.has_asked() {
                    connection.as_mut().graceful_shutdown();
                    told = true;
                }
                match connection.as_mut().poll(context) {
                    Poll::Pending if closing && !told && client.has_asked() => {}
                    Poll::Pending if client.waiting() => {
                        return socket.poll_gone(context, client.runs_ahead()).map(|()| Ended::Gone);
                    }
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(ended) => return Poll::Ready(Ended::Itself(ended)),
                }
            }
        });
        tokio::select! {
            biased;
            ended = next => {
                match ended {
                    Ended::Itself(Err(error)) => debug!(error = &*error, "connection ended"),
                    Ended::Itself(Ok(())) => {}
                    Ended::Gone => debug!("client gone"),
                }
                return;
            }
            () = &mut draining, if !closing => closing = true,
            () = &mut look_again => match client.patience(timeouts.header, timeouts.idle) {
                Patience::Until(deadline) => look_again.as_mut().reset(deadline),
                Patience::Over(Overdue::FirstRequest) => return,
                Patience::Over(Overdue::Idle) => {
                    connection.as_mut().graceful_shutdown();
                    look_again.as_mut().reset(Instant::now() + timeouts.idle);
                }
            },
        }
    }
}

/// How a connection ended.
enum Ended {
    /// By the rules of HTTP, or against them.
    Itself(Result<(), Box<dyn Error + Send + Sync>>),
    /// The client closed it while a reply was owed, or sent on and on.
    Gone,
}

fn builder(server: &Server) -> auto::Builder<TaskExecutor> {
    let mut builder = auto::Builder::new(TaskExecutor(server.app.tasks.clone()));
    // Heads and idleness are timed here, by one timer per connection instead of one per request.
    builder.http1().header_read_timeout(None).max_buf_size(BUFFER_BYTES_MAX).timer(TokioTimer::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(H2_PING_INTERVAL)
        .keep_alive_timeout(H2_PING_TIMEOUT)
        .max_concurrent_streams(H2_STREAMS_MAX)
        .max_header_list_size(u32::try_from(server.app.limits.header_bytes).unwrap_or(u32::MAX));
    builder
}

/// The requests of one connection.
struct Requests {
    router: Router,
    client: Arc<Client>,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response<Reply>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let exchange = self.client.begin(request.version());
        request.extensions_mut().insert(Arc::clone(&self.client));
        let reply = self.router.clone().call(request);
        Box::pin(async move {
            let reply = reply.await?;
            Ok(reply.map(|body| Reply { body, _exchange: exchange }))
        })
    }
}

/// A reply's body; the exchange it ends is over when it is dropped.
struct Reply {
    body: Body,
    _exchange: Exchange,
}

impl http_body::Body for Reply {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// One open connection; dropping it is the only way to uncount it.
struct Open(Gauge);

impl Open {
    fn begin(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
