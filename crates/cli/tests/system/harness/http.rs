use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Method, Request};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::wait::within;

/// How to speak TLS to a server, and the name to expect of it.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: &'static str,
}

/// One request, on a connection of its own.
#[derive(Clone)]
pub(crate) struct Call {
    address: SocketAddr,
    tls: Option<Tls>,
    method: Method,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Bytes,
}

impl Call {
    pub(crate) fn get(address: SocketAddr, path: &str) -> Self {
        let path = path.to_owned();
        Self { address, tls: None, method: Method::GET, path, headers: Vec::new(), body: Bytes::new() }
    }

    /// A JSON body.
    pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Self {
        Self::get(address, path)
            .method("POST")
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    pub(crate) fn method(mut self, method: &str) -> Self {
        self.method = method.parse().unwrap();
        self
    }

    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    pub(crate) fn bearer(self, key: &str) -> Self {
        self.header("authorization", format!("Bearer {key}"))
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn tls(mut self, tls: &Tls) -> Self {
        self.tls = Some(tls.clone());
        self
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(self.method.clone()).uri(&self.path);
        request = request.header("host", self.address.to_string());
        for (name, value) in &self.headers {
            request = request.header(name, value.as_slice());
        }
        request.body(Full::new(self.body.clone())).unwrap()
    }

    /// Sends it and waits for the head of the reply. Dropping this future closes the connection.
    pub(crate) async fn try_open(&self) -> anyhow::Result<Open> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let mut connection = JoinSet::new();
        let mut sender = match &self.tls {
            None => {
                let (sender, driven) = http1::handshake(TokioIo::new(stream)).await?;
                connection.spawn(driven);
                sender
            }
            Some(Tls { config, name }) => {
                let name = ServerName::try_from(*name)?;
                let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
                let (sender, driven) = http1::handshake(TokioIo::new(stream)).await?;
                connection.spawn(driven);
                sender
            }
        };
        let reply = sender.send_request(self.request()).await?;
        let (head, body) = reply.into_parts();
        let (status, headers) = (head.status.as_u16(), head.headers);
        Ok(Open { status, headers, body, text: String::new(), _connection: connection })
    }

    /// Sends it and waits for the head of the reply.
    pub(crate) async fn open(&self) -> Open {
        let what = format!("a reply to {} {}", self.method, self.path);
        within(&what, self.try_open()).await.unwrap_or_else(|error| panic!("no {what}: {error:#}"))
    }

    /// Sends it and waits for the whole reply.
    pub(crate) async fn send(&self) -> Reply {
        self.open().await.whole().await
    }
}

/// A reply that is still coming. Dropping it closes the connection, as a client does that leaves.
pub(crate) struct Open {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    /// What has come and was not read yet.
    text: String,
    _connection: JoinSet<hyper::Result<()>>,
}

impl Open {
    /// The next event's data, or `None` at the end of the body.
    pub(crate) async fn event(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                match event.strip_prefix("data: ") {
                    Some(data) => return Some(data.trim_end().to_owned()),
                    None => continue, // a comment
                }
            }
            let frame = within("the next event", self.body.frame()).await?;
            let data = frame.unwrap().into_data().unwrap();
            self.text.push_str(str::from_utf8(&data).unwrap());
        }
    }

    /// Everything until the body ends, or breaks off.
    pub(crate) async fn rest(mut self) -> (Reply, Option<hyper::Error>) {
        let mut body = std::mem::take(&mut self.text).into_bytes();
        let broken = loop {
            match within("the rest of a reply", self.body.frame()).await {
                None => break None,
                Some(Err(error)) => break Some(error),
                Some(Ok(frame)) => body.extend_from_slice(&frame.into_data().unwrap_or_default()),
            }
        };
        (Reply { status: self.status, headers: self.headers, body }, broken)
    }

    /// The whole reply; it must end in order.
    pub(crate) async fn whole(self) -> Reply {
        let (reply, broken) = self.rest().await;
        assert!(broken.is_none(), "the reply broke off: {broken:?}");
        reply
    }
}

/// A whole reply.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The data of every event of a stream, `[DONE]` checked and taken off.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut events: Vec<&str> =
            self.text().split_terminator("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        assert_eq!(events.pop(), Some("[DONE]"), "the last event of {}", self.text());
        events.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// The reply as one value, whichever way it was delivered: a whole body, or a list of events.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        let stream = self.header("content-type") == Some("text/event-stream");
        if stream { self.events() } else { vec![self.json()] }
    }

    /// The output ids of choice 0 on the generate route.
    pub(crate) fn tokens(&self) -> Vec<u64> {
        let choices = self.chunks().into_iter().filter_map(|chunk| chunk["choices"].get(0).cloned());
        let ids = choices.flat_map(|choice| choice["token_ids"].as_array().cloned().unwrap_or_default());
        ids.map(|id| id.as_u64().unwrap()).collect()
    }

    /// Why choice 0 ended.
    pub(crate) fn finish_reason(&self) -> Option<String> {
        let chunks = self.chunks();
        chunks.iter().find_map(|chunk| Some(chunk["choices"].get(0)?["finish_reason"].as_str()?.to_owned()))
    }

    /// `error.code`, of a refusal or of the error event that ends a stream.
    pub(crate) fn error_code(&self) -> Option<String> {
        Some(self.chunks().last()?["error"]["code"].as_str()?.to_owned())
    }
}

/// Asserts that a reply is the one error envelope, and returns what is in it.
#[track_caller]
pub(crate) fn assert_envelope(about: &str, reply: &Reply) -> Value {
    assert_eq!(reply.header("content-type"), Some("application/json"), "{about}");
    assert!(reply.header("x-request-id").is_some(), "{about}: no x-request-id");
    let body = reply.json();
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
    };
    assert_eq!(keys(&body), ["error"], "{about}: {body}");
    let error = body["error"].clone();
    assert_eq!(keys(&error), ["message", "type", "param", "code"], "{about}: {body}");
    let texts =
        ["message", "type", "code"].iter().all(|key| error[key].as_str().is_some_and(|t| !t.is_empty()));
    assert!(texts && (error["param"].is_string() || error["param"].is_null()), "{about}: {body}");
    let retry = matches!(reply.status, 429 | 503);
    assert_eq!(reply.header("retry-after").is_some(), retry, "{about}: Retry-After on {}", reply.status);
    error
}

/// A request that is on its way in the background. Dropping it closes its connection.
pub(crate) struct Asked(JoinSet<anyhow::Result<Reply>>);

impl Asked {
    pub(crate) fn new(call: Call) -> Self {
        let mut asked = JoinSet::new();
        asked.spawn(async move {
            let (reply, broken) = call.try_open().await?.rest().await;
            broken.map_or(Ok(reply), |error| Err(error.into()))
        });
        Self(asked)
    }

    async fn end(mut self) -> anyhow::Result<Reply> {
        within("a reply", self.0.join_next()).await.unwrap().unwrap()
    }

    /// The whole reply.
    pub(crate) async fn reply(self) -> Reply {
        self.end().await.unwrap_or_else(|error| panic!("no whole reply: {error:#}"))
    }

    /// Whether the connection ended before the reply did.
    pub(crate) async fn failed(self) -> bool {
        self.end().await.is_err()
    }
}
