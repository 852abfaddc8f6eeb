//! A client's socket that gives up on a client which takes nothing, and that closes gently.
//!
//! It must not know TLS or HTTP: it sees bytes and time.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::info;

use super::Client;

/// How long a closing connection goes on reading a body nobody wants.
const LINGER: Duration = Duration::from_secs(5);
/// How much of such a body is read (bytes).
const LINGER_BYTES_MAX: usize = 256 << 20;
/// Read at a time while lingering (bytes).
const SCRAP_BYTES: usize = 16 << 10;

/// A client's socket with a limit on its patience with the client.
///
/// While we have bytes that the client does not take, a timer runs; progress of any kind stops it. Closing after a
/// body was left unread lingers: closing at once would make the kernel reset the connection, and the client would
/// lose the very reply that tells it why.
pub(super) struct ClientIo {
    tcp: Arc<TcpStream>,
    client: Arc<Client>,
    stall_timeout: Duration,
    stalled: Counter,
    timer: Option<Pin<Box<Sleep>>>,
    state: State,
    lingered_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The timer means nothing.
    Flowing,
    /// The timer runs until the client must have taken something.
    Stalled,
    /// Our side is closed; the timer runs until we stop reading.
    Lingering,
}

impl ClientIo {
    pub(super) fn new(
        tcp: Arc<TcpStream>,
        client: Arc<Client>,
        stall_timeout: Duration,
        stalled: Counter,
    ) -> Self {
        let (timer, state, lingered_bytes) = (None, State::Flowing, 0);
        Self { tcp, client, stall_timeout, stalled, timer, state, lingered_bytes }
    }

    /// Enters a state whose time is limited, unless it is entered already; ready when the time is over.
    fn poll_limit(&mut self, context: &mut Context<'_>, state: State, limit: Duration) -> Poll<()> {
        if self.state != state {
            let deadline = Instant::now() + limit;
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(deadline),
                None => self.timer = Some(Box::pin(sleep_until(deadline))),
            }
            self.state = state;
        }
        self.timer.as_mut().expect("every limited state has a timer").as_mut().poll(context)
    }

    fn poll_write_with(
        &mut self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        while let Poll::Ready(writable) = self.tcp.poll_write_ready(context) {
            writable?;
            match write(&self.tcp) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    self.state = State::Flowing;
                    return Poll::Ready(written);
                }
            }
        }
        ready!(self.poll_limit(context, State::Stalled, self.stall_timeout));
        self.stalled.inc();
        info!(timeout_ms = self.stall_timeout.as_millis(), "client stopped reading, closing its connection");
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Reads and forgets until the client closes, or enough of it has been read, for long enough.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scrap = [0; SCRAP_BYTES];
        while self.lingered_bytes < LINGER_BYTES_MAX {
            if self.poll_limit(context, State::Lingering, LINGER).is_ready() {
                return Poll::Ready(());
            }
            if ready!(self.tcp.poll_read_ready(context)).is_err() {
                return Poll::Ready(());
            }
            match self.tcp.try_read(&mut scrap) {
                Ok(0) => return Poll::Ready(()),
                Ok(read) => self.lingered_bytes += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.tcp.poll_read_ready(context))?;
            match self.tcp.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(drop)),
            }
        }
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(context, |tcp| tcp.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(context, |tcp| tcp.try_write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state != State::Lingering {
            SockRef::from(&*self.tcp).shutdown(Shutdown::Write)?;
        }
        if self.client.must_linger() {
            ready!(self.poll_linger(context));
        }
        Poll::Ready(Ok(()))
    }
}

/// Whether the client has closed its side, however much it had sent before; pending when not, or not yet known.
///
/// HTTP/1 stops reading while a reply is owed and more has arrived, so a client that sends two requests at once and
/// leaves would go unnoticed until its first reply is written.
pub(super) fn poll_gone(tcp: &TcpStream, context: &mut Context<'_>) -> Poll<()> {
    let mut byte = [0];
    match tcp.poll_peek(context, &mut ReadBuf::new(&mut byte)) {
        Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
        Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
    }
}
