//! A client's socket that gives up on a client which takes nothing, and that closes gently.
//!
//! It must not know TLS or HTTP: it sees bytes and time.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// Taken from a client ahead of its turn, besides what the HTTP library has buffered (bytes).
const AHEAD_BYTES_MAX: usize = 16 << 10;

/// A client's socket, and what was read from it before HTTP asked for it.
pub(super) struct Socket {
    tcp: TcpStream,
    ahead: Mutex<Vec<u8>>,
}

impl Socket {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, ahead: Mutex::default() }
    }

    /// Whether the client has closed its side, or has run too far ahead; pending when not, or not yet known.
    ///
    /// HTTP/1 stops reading while a reply is owed and more has arrived, so a client that sends two requests at once and
    /// leaves would go unnoticed until its first reply is written. Its close comes after all it has sent, so that has to
    /// be read: kept until HTTP asks for it, and not without end. Where bytes are of use now, as a body's and HTTP/2's
    /// are, they are left for HTTP to read (`runs_ahead` is false), and it finds the end itself.
    pub(super) fn poll_gone(&self, context: &mut Context<'_>, runs_ahead: bool) -> Poll<()> {
        if !runs_ahead {
            let mut byte = [0];
            return match self.tcp.poll_peek(context, &mut ReadBuf::new(&mut byte)) {
                Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
                Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
            };
        }
        let mut ahead = self.ahead();
        let before = ahead.len();
        let mut piece = [0; 4 << 10];
        while ahead.len() <= AHEAD_BYTES_MAX {
            match self.poll_receive(context, &mut ReadBuf::new(&mut piece)) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(read)) => ahead.extend_from_slice(&piece[..read]),
                Poll::Pending => {
                    // HTTP may have been waiting for just these bytes.
                    if ahead.len() > before {
                        context.waker().wake_by_ref();
                    }
                    return Poll::Pending;
                }
            }
        }
        info!(limit = AHEAD_BYTES_MAX, "client sent too much ahead of a reply, closing its connection");
        Poll::Ready(())
    }

    /// Reads what was read ahead, then from the network.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut ahead = self.ahead();
        if ahead.is_empty() {
            return self.poll_receive(context, buffer).map_ok(drop);
        }
        let taken = ahead.len().min(buffer.remaining());
        buffer.put_slice(&ahead[..taken]);
        ahead.drain(..taken);
        if ahead.is_empty() {
            // Most connections never run ahead again.
            *ahead = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_receive(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.tcp.poll_read_ready(context))?;
            match self.tcp.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }

    fn ahead(&self) -> MutexGuard<'_, Vec<u8>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's socket with a limit on its patience with the client.
///
/// While we have bytes that the client does not take, a timer runs; progress of any kind stops it. Closing after a
/// body was left unread lingers: closing at once would make the kernel reset the connection, and the client would
/// lose the very reply that tells it why.
pub(super) struct ClientIo {
    socket: Arc<Socket>,
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
        socket: Arc<Socket>,
        client: Arc<Client>,
        stall_timeout: Duration,
        stalled: Counter,
    ) -> Self {
        let (timer, state, lingered_bytes) = (None, State::Flowing, 0);
        Self { socket, client, stall_timeout, stalled, timer, state, lingered_bytes }
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
        while let Poll::Ready(writable) = self.socket.tcp.poll_write_ready(context) {
            writable?;
            match write(&self.socket.tcp) {
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
            if ready!(self.socket.tcp.poll_read_ready(context)).is_err() {
                return Poll::Ready(());
            }
            match self.socket.tcp.try_read(&mut scrap) {
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
        self.socket.poll_read(context, buffer)
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
            SockRef::from(&self.socket.tcp).shutdown(Shutdown::Write)?;
        }
        if self.client.must_linger() {
            ready!(self.poll_linger(context));
        }
        Poll::Ready(Ok(()))
    }
}
