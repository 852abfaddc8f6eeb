use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Reply;
use crate::wait::within;

/// A connection on which a test spells every byte.
#[derive(Debug)]
pub struct Raw<S = TcpStream> {
    socket: S,
    /// Read and not yet looked at.
    buffered: Vec<u8>,
}

/// The text of a POST with a JSON body over HTTP/1.1.
pub fn post_text(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The text of a GET over HTTP/1.1.
pub fn get_text(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n")
}

impl Raw {
    /// A TCP connection.
    pub async fn connect(addr: SocketAddr) -> Self {
        Self::over(TcpStream::connect(addr).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    /// A connection that is there already.
    pub fn over(socket: S) -> Self {
        Self { socket, buffered: Vec::new() }
    }

    /// Sends all of it.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within("the server to read", self.socket.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Sends what can be sent: the server may have closed already.
    pub async fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = within("the server to read or close", self.socket.write_all(bytes.as_ref())).await;
    }

    /// Says that nothing more will be sent.
    pub async fn close_write(&mut self) {
        within("the server to read", self.socket.shutdown()).await.unwrap();
    }

    /// Reads up to the end of the next head.
    pub async fn head(&mut self) -> String {
        String::from_utf8(self.until(b"\r\n\r\n").await).expect("heads are text")
    }

    /// Reads one reply with a length.
    pub async fn reply(&mut self) -> Reply {
        let mut reply = Reply::of_head(&self.head().await);
        let length = reply.header("content-length").expect("a length").parse().unwrap();
        reply.body = self.exactly(length).await;
        reply
    }

    /// Reads up to and including `end`.
    pub async fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.buffered.windows(end.len()).position(|window| window == end) {
                return self.buffered.drain(..at + end.len()).collect();
            }
            assert!(self.more().await > 0, "closed before {:?}", String::from_utf8_lossy(end));
        }
    }

    /// Reads so many bytes.
    pub async fn exactly(&mut self, length: usize) -> Vec<u8> {
        self.try_exactly(length).await.expect("not closed early")
    }

    /// The same, or none where the connection ends before.
    pub async fn try_exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.buffered.len() < length {
            if self.more().await == 0 {
                return None;
            }
        }
        Some(self.buffered.drain(..length).collect())
    }

    /// Everything up to the end of the connection, however it ends.
    pub async fn rest(&mut self) -> Vec<u8> {
        while self.more().await > 0 {}
        std::mem::take(&mut self.buffered)
    }

    async fn more(&mut self) -> usize {
        let read = within("the server to write or close", self.socket.read_buf(&mut self.buffered)).await;
        read.unwrap_or(0)
    }
}
