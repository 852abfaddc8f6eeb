use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::SOON;

/// A connection that says exactly what it is told to.
pub(crate) struct Raw<S = TcpStream> {
    socket: S,
    /// Read and not yet looked at.
    buffered: Vec<u8>,
}

/// One reply, taken apart.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("a text body")
    }
}

pub(crate) fn post_text(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) fn get_text(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n")
}

impl Raw {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self::over(TcpStream::connect(addr).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    pub(crate) fn over(socket: S) -> Self {
        Self { socket, buffered: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        timeout(SOON, self.socket.write_all(bytes.as_ref())).await.expect("the server reads").unwrap();
    }

    /// Sends what can be sent: the server may have closed already.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ =
            timeout(SOON, self.socket.write_all(bytes.as_ref())).await.expect("the server reads or closes");
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn close_write(&mut self) {
        timeout(SOON, self.socket.shutdown()).await.expect("the server reads").unwrap();
    }

    /// Reads up to the end of the next head.
    pub(crate) async fn head(&mut self) -> String {
        let head = self.until(b"\r\n\r\n").await;
        String::from_utf8(head).expect("heads are text")
    }

    /// Reads one reply with a length.
    pub(crate) async fn reply(&mut self) -> Reply {
        let reply = Reply { head: self.head().await, body: Vec::new() };
        let length = reply.header("content-length").expect("a length").parse().unwrap();
        Reply { body: self.exactly(length).await, ..reply }
    }

    /// Reads up to and including `end`.
    pub(crate) async fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.buffered.windows(end.len()).position(|window| window == end) {
                return self.buffered.drain(..at + end.len()).collect();
            }
            assert!(self.more().await > 0, "closed before {:?}", String::from_utf8_lossy(end));
        }
    }

    pub(crate) async fn exactly(&mut self, length: usize) -> Vec<u8> {
        self.try_exactly(length).await.expect("not closed early")
    }

    /// The same, or none where the connection ends before.
    pub(crate) async fn try_exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.buffered.len() < length {
            if self.more().await == 0 {
                return None;
            }
        }
        Some(self.buffered.drain(..length).collect())
    }

    /// Everything up to the end of the connection, however it ends.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await > 0 {}
        std::mem::take(&mut self.buffered)
    }

    async fn more(&mut self) -> usize {
        let read = timeout(SOON, self.socket.read_buf(&mut self.buffered)).await;
        read.expect("the server writes or closes").unwrap_or(0)
    }
}
