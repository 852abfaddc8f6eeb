//! The part of ZeroMQ's wire protocol (ZMTP 3.0, NULL security) that a subscriber needs, over any byte stream.
//!
//! Own code, because the `zeromq` crate reserves whatever length a frame claims: one wrong byte of a peer ends the
//! process. Here lengths and counts have bounds, a link owns its socket and nothing else, and a lost connection is an
//! error at once instead of something a background task repairs unseen, which a sequence must know about.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

mod frame;
#[cfg(any(test, feature = "test-util"))]
pub(crate) mod scripted;

use frame::{Frame, GREETING_BYTES, command, greeting, mechanism};

/// Frames of one message; batches have three, replies to a replay four.
const FRAMES_MAX: usize = 8;
/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;
/// Bytes waiting to be sent to a peer that does not read.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// A connection under a [`Link`].
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// What we are to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Receives what a publisher publishes.
    Subscriber,
    /// Talks to a router.
    Dealer,
}

/// One message, its frames in order.
pub(crate) type Message = Vec<Bytes>;

/// A greeted peer.
pub(crate) struct Link {
    io: Box<dyn Io>,
    input: BytesMut,
    output: BytesMut,
    /// Frames of a message whose last one has not come.
    partial: Message,
}

impl Link {
    /// Greets the peer. The caller limits the time.
    pub(crate) async fn open(io: Box<dyn Io>, role: Role) -> io::Result<Self> {
        let mut link = Self { io, input: BytesMut::new(), output: BytesMut::new(), partial: Message::new() };
        link.output.put_slice(&greeting());
        while link.input.len() < GREETING_BYTES {
            link.exchange().await?;
        }
        mechanism(&link.input.split_to(GREETING_BYTES))?;
        let (own, peers): (&str, &[&[u8]]) = match role {
            Role::Subscriber => ("SUB", &[b"PUB", b"XPUB"]),
            Role::Dealer => ("DEALER", &[b"ROUTER", b"REP", b"DEALER"]),
        };
        frame::ready(own, &mut link.output);
        let ready = loop {
            match link.frame()? {
                Some(frame) if frame.command => break frame.body,
                Some(_) => return Err(refused("the peer sent a message before it was ready")),
                None => link.exchange().await?,
            }
        };
        let socket = frame::socket_type(&ready)?;
        if !peers.contains(&&*socket) {
            return Err(refused(format!("the peer is a {} socket", String::from_utf8_lossy(&socket))));
        }
        Ok(link)
    }

    /// Queues a message; it is sent while [`Link::next`] is awaited.
    pub(crate) fn send(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        for (at, body) in frames.iter().enumerate() {
            frame::message(body, at + 1 < frames.len(), &mut self.output);
        }
        self.within_bounds()
    }

    /// Waits until all that was queued is with the system.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            self.exchange().await?;
        }
        Ok(())
    }

    /// The next message. Cancel-safe; an error is the end of the connection.
    pub(crate) async fn next(&mut self) -> io::Result<Message> {
        loop {
            match self.frame()? {
                Some(Frame { command: true, body, .. }) => {
                    command::answer(&body, &mut self.output);
                    self.within_bounds()?;
                }
                Some(Frame { more, body, .. }) => {
                    if self.partial.len() == FRAMES_MAX {
                        return Err(refused(format!("a message of more than {FRAMES_MAX} frames")));
                    }
                    self.partial.push(body);
                    if !more {
                        return Ok(std::mem::take(&mut self.partial));
                    }
                }
                None => self.exchange().await?,
            }
        }
    }

    fn frame(&mut self) -> io::Result<Option<Frame>> {
        Frame::take(&mut self.input)
    }

    fn within_bounds(&self) -> io::Result<()> {
        if self.output.len() > OUTPUT_BYTES_MAX {
            return Err(refused("the peer does not read what it is sent"));
        }
        Ok(())
    }

    /// Moves bytes in either direction; returns when some came or some went. Cancel-safe.
    async fn exchange(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            let written = self.io.write(&self.output).await?;
            self.output.advance(written);
            return if written == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) };
        }
        self.input.reserve(READ_BYTES);
        match self.io.read_buf(&mut self.input).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

#[cfg(test)]
mod tests;
