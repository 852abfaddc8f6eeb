use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::Reply;
use crate::wait::within;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How to speak TLS to a server, and the name to expect of it.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Roots, the client's own certificate, and the protocols that it offers.
    pub config: Arc<ClientConfig>,
    /// The name that the server's certificate must have.
    pub name: &'static str,
}

/// One request, on a connection of its own.
#[must_use = "it must be sent"]
#[derive(Debug, Clone)]
pub struct Call {
    address: SocketAddr,
    tls: Option<Tls>,
    http2: bool,
    method: Method,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Bytes,
}

impl Call {
    /// `GET path`.
    pub fn get(address: SocketAddr, path: &str) -> Self {
        let (tls, http2, headers) = (None, false, Vec::new());
        Self { address, tls, http2, method: Method::GET, path: path.to_owned(), headers, body: Bytes::new() }
    }

    /// `POST path` with a JSON body.
    pub fn post(address: SocketAddr, path: &str, body: &Value) -> Self {
        Self::get(address, path)
            .method("POST")
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    /// With another method.
    pub fn method(mut self, method: &str) -> Self {
        self.method = method.parse().unwrap();
        self
    }

    /// With one more header.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// With a key.
    pub fn bearer(self, key: &str) -> Self {
        self.header("authorization", format!("Bearer {key}"))
    }

    /// With another body, whose length is stated.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Over TLS.
    pub fn tls(mut self, tls: &Tls) -> Self {
        self.tls = Some(tls.clone());
        self
    }

    /// Over HTTP/2, without asking whether the server speaks it.
    pub fn http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let authority = self.address;
        let request = Request::builder().method(self.method.clone());
        let mut request = if self.http2 {
            let scheme = if self.tls.is_some() { "https" } else { "http" };
            request.uri(format!("{scheme}://{authority}{}", self.path))
        } else {
            request.uri(&self.path).header("host", authority.to_string())
        };
        for (name, value) in &self.headers {
            request = request.header(name, value.as_slice());
        }
        request.body(Full::new(self.body.clone())).unwrap()
    }

    /// Sends it and waits for the head of the reply. Dropping this future closes the connection.
    pub async fn try_open(&self) -> Result<Open, Failure> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let mut connection = JoinSet::new();
        let reply = match &self.tls {
            None => Box::pin(self.exchange(stream, &mut connection)).await?,
            Some(Tls { config, name }) => {
                let name = ServerName::try_from(*name)?;
                let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
                Box::pin(self.exchange(stream, &mut connection)).await?
            }
        };
        let (head, body) = reply.into_parts();
        let (status, headers) = (head.status.as_u16(), head.headers);
        Ok(Open { status, headers, body, text: String::new(), _connection: connection })
    }

    async fn exchange<S>(
        &self,
        stream: S,
        connection: &mut JoinSet<hyper::Result<()>>,
    ) -> hyper::Result<Response<Incoming>>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream = TokioIo::new(stream);
        if self.http2 {
            let (mut sender, driven) = http2::handshake(TokioExecutor::new(), stream).await?;
            connection.spawn(driven);
            return sender.send_request(self.request()).await;
        }
        let (mut sender, driven) = http1::handshake(stream).await?;
        connection.spawn(driven);
        sender.send_request(self.request()).await
    }

    /// Sends it and waits for the head of the reply.
    pub async fn open(&self) -> Open {
        let what = format!("a reply to {} {}", self.method, self.path);
        within(&what, self.try_open()).await.unwrap_or_else(|error| panic!("no {what}: {error}"))
    }

    /// Sends it without waiting for the reply.
    pub fn begin(self) -> InFlight {
        let mut sent = JoinSet::new();
        sent.spawn(async move {
            let (reply, broken) = self.try_open().await?.rest().await;
            broken.map_or(Ok(reply), |error| Err(error.into()))
        });
        InFlight(sent)
    }

    /// Sends it and waits for the whole reply.
    pub async fn send(&self) -> Reply {
        self.open().await.whole().await
    }
}

/// A reply that is still coming. Dropping it closes the connection, as a client does that leaves.
#[derive(Debug)]
pub struct Open {
    /// The HTTP status.
    pub status: u16,
    /// The head's headers.
    pub headers: HeaderMap,
    body: Incoming,
    /// What has come and was not read yet.
    text: String,
    _connection: JoinSet<hyper::Result<()>>,
}

impl Open {
    /// The next event's data, or `None` at the end of the body. Comments are passed over.
    pub async fn event(&mut self) -> Option<String> {
        loop {
            if let Some(data) = self.block().await?.strip_prefix("data: ") {
                return Some(data.trim_end().to_owned());
            }
        }
    }

    /// The next comment of a stream, which no event may come before.
    pub async fn comment(&mut self) -> String {
        let block = self.block().await.expect("the stream goes on");
        assert!(block.starts_with(':'), "an event instead of a comment: {block}");
        block.trim_end().to_owned()
    }

    /// What comes before the next empty line, with that line.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                return Some(self.text.drain(..end + 2).collect());
            }
            let frame = within("the next event", self.body.frame()).await?;
            let data = frame.unwrap().into_data().unwrap();
            self.text.push_str(str::from_utf8(&data).unwrap());
        }
    }

    /// Everything until the body ends, or breaks off.
    pub async fn rest(self) -> (Reply, Option<hyper::Error>) {
        let Self { status, headers, mut body, text, _connection } = self;
        let mut reply = Reply { status, headers, body: text.into_bytes(), trailers: HeaderMap::new() };
        loop {
            match within("the rest of a reply", body.frame()).await {
                None => return (reply, None),
                Some(Err(error)) => return (reply, Some(error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => reply.body.extend_from_slice(&data),
                    Err(frame) => reply.trailers = frame.into_trailers().unwrap_or_default(),
                },
            }
        }
    }

    /// The whole reply; it must end in order.
    pub async fn whole(self) -> Reply {
        let (reply, broken) = self.rest().await;
        assert!(broken.is_none(), "the reply broke off: {broken:?}");
        reply
    }
}

/// A request that is on its way in the background. Dropping it closes its connection.
#[derive(Debug)]
pub struct InFlight(JoinSet<Result<Reply, Failure>>);

impl InFlight {
    async fn end(mut self) -> Result<Reply, Failure> {
        within("a reply", self.0.join_next()).await.unwrap().unwrap()
    }

    /// The whole reply.
    pub async fn reply(self) -> Reply {
        self.end().await.unwrap_or_else(|error| panic!("no whole reply: {error}"))
    }

    /// Whether the connection ended before the reply did.
    pub async fn failed(self) -> bool {
        self.end().await.is_err()
    }
}

#[cfg(test)]
mod tests;
