//! A peer that has said everything already: bytes in pieces, then the end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Link, Message, Role};

/// Reads what such a peer said. `None` where it was refused before its first message; else every message up to the end or the
/// first error. Never waits.
pub(crate) fn read(said: &[u8], role: Role, piece_bytes: usize) -> Option<Vec<Message>> {
    let peer = Scripted { rest: Bytes::copy_from_slice(said), piece_bytes: piece_bytes.max(1) };
    let reading = async {
        let mut link = Link::open(Box::new(peer), role).await.ok()?;
        let mut messages = Vec::new();
        while let Ok(message) = link.next().await {
            messages.push(message);
        }
        Some(messages)
    };
    reading.now_or_never().expect("such a peer is always ready")
}

struct Scripted {
    rest: Bytes,
    piece_bytes: usize,
}

impl AsyncRead for Scripted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.piece_bytes.min(self.rest.len()).min(buffer.remaining());
        buffer.put_slice(&self.rest.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(self: Pin<&mut Self>, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
