//! Sockets that can be shut and reset on purpose.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;
use tracing::warn;

/// How long to wait before binding again, after somebody else had the port.
const BIND_AGAIN: Duration = Duration::from_millis(100);

/// A bound port. While its door is shut it does not listen, so that clients are refused.
#[derive(Debug)]
pub(crate) struct Port {
    listener: Option<TcpListener>,
    address: SocketAddr,
    door: Option<watch::Receiver<bool>>,
    kill: CancellationToken,
    stop: CancellationToken,
}

impl Port {
    pub(crate) fn new(
        listener: TcpListener,
        address: SocketAddr,
        door: Option<watch::Receiver<bool>>,
        kill: CancellationToken,
        stop: CancellationToken,
    ) -> Self {
        Self { listener: Some(listener), address, door, kill, stop }
    }

    /// The next connection, or `None` once nothing is accepted any more.
    pub(crate) async fn accept(&mut self) -> Option<Connection> {
        loop {
            let open = self.door.as_mut().is_none_or(|door| *door.borrow_and_update());
            if !open {
                self.listener = None;
            }
            let (kill, stop) = (self.kill.clone(), self.stop.clone());
            let event = async {
                tokio::select! {
                    biased;
                    () = kill.cancelled() => None,
                    () = stop.cancelled() => None,
                    event = self.next(open) => event,
                }
            };
            match event.await {
                None => {
                    self.listener = None;
                    return None;
                }
                Some(Ok(stream)) => return Some(Connection::new(stream, self.kill.clone())),
                // The door moved, or one client left before it was served.
                Some(Err(_)) => {}
            }
        }
    }

    /// A connection, or an error that only means to look at the door again.
    async fn next(&mut self, open: bool) -> Option<io::Result<TcpStream>> {
        let moved = || io::Error::from(io::ErrorKind::Interrupted);
        if !open {
            self.door.as_mut()?.changed().await.ok()?;
            return Some(Err(moved()));
        }
        let listener = match &mut self.listener {
            Some(listener) => listener,
            closed => match TcpListener::bind(self.address).await {
                Ok(listener) => closed.insert(listener),
                Err(error) => {
                    warn!(%error, address = %self.address, "the port could not be bound again");
                    tokio::time::sleep(BIND_AGAIN).await;
                    return Some(Err(error));
                }
            },
        };
        let accepted = async { listener.accept().await.map(|(stream, _)| stream) };
        match &mut self.door {
            None => Some(accepted.await),
            Some(door) => tokio::select! {
                accepted = accepted => Some(accepted),
                _ = door.changed() => Some(Err(moved())),
            },
        }
    }
}

impl axum::serve::Listener for Port {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match Port::accept(self).await {
            Some(connection) => (connection, self.address),
            // The server is about to be dropped; it must not spin until then.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// A connection that is reset when the process dies.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    killed: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn new(stream: TcpStream, kill: CancellationToken) -> Self {
        // A delta must not wait for the next one.
        if let Err(error) = stream.set_nodelay(true) {
            warn!(%error, "a connection keeps its delay");
        }
        Self { stream, killed: Box::pin(kill.cancelled_owned()) }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.killed.as_mut().poll(context).is_pending() {
            return Ok(());
        }
        // With zero linger, closing sends a reset instead of an orderly end.
        self.stream.set_zero_linger()?;
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
