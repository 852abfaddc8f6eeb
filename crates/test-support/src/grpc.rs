//! A gRPC server whose messages are bytes: it knows no schema, so what it answers is what a test holds.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Collected, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Bytes before a message: one for compression, four for its length.
const FRAME_BYTES: usize = 5;
/// `grpc.health.v1.HealthCheckResponse` whose status, field 1, is SERVING.
const SERVING: &[u8] = &[0x08, 0x01];

/// A call with one message, as it came.
#[derive(Debug, Clone)]
pub struct Call {
    /// `/package.Service/Method`.
    pub path: String,
    /// Its metadata among the other headers.
    pub headers: HeaderMap,
    /// The message without its frame.
    pub message: Bytes,
}

/// What a call is answered with.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Without their frames.
    pub messages: Vec<Bytes>,
    /// Code and message of the status, 0 for OK; without one the answer stays open for ever.
    pub status: Option<(i32, String)>,
}

impl Answer {
    /// One message and the end.
    pub fn one(message: impl Into<Bytes>) -> Self {
        Self { messages: vec![message.into()], status: Some((0, String::new())) }
    }

    /// One message, and others may follow.
    pub fn open(message: impl Into<Bytes>) -> Self {
        Self { messages: vec![message.into()], status: None }
    }

    /// Nothing but a status.
    pub fn failed(code: i32) -> Self {
        Self { messages: Vec::new(), status: Some((code, String::new())) }
    }

    fn response(self) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        let Self { messages, status } = self;
        let status = status.map(|(code, message)| status_map(code, &message));
        let mut response = Response::new(());
        // A call that fails before its first message has its status in the headers.
        let trailers = match status {
            Some(status) if messages.is_empty() => {
                *response.headers_mut() = status;
                stream::empty().boxed()
            }
            Some(status) => stream::iter([Frame::trailers(status)]).boxed(),
            None => stream::pending().boxed(),
        };
        response.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        let frames = messages.into_iter().map(|message| Frame::data(framed(&message)));
        let body = StreamBody::new(stream::iter(frames).chain(trailers).map(Ok));
        response.map(|()| body.boxed_unsync())
    }
}

/// A server on a free port of the loopback interface, until it is dropped. It says that every service is healthy.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    _serving: JoinSet<()>,
}

impl Server {
    /// Serves these answers.
    pub async fn start(answer: impl Fn(Call) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(answer);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                connections.spawn(async move {
                    let service = service_fn(move |request| answered(request, Arc::clone(&answer)));
                    // A client ends its streams and its connection as it pleases.
                    let http2 = http2::Builder::new(TokioExecutor::new());
                    let _ = http2.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self { address, _serving: serving }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn answered(
    request: Request<Incoming>,
    answer: Arc<impl Fn(Call) -> Answer>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let answer = match head.uri.path() {
        "/grpc.health.v1.Health/Check" => Answer::one(SERVING),
        "/grpc.health.v1.Health/Watch" => Answer::open(SERVING),
        path => {
            let framed = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
            let message = framed.slice(framed.len().min(FRAME_BYTES)..);
            answer(Call { path: path.to_owned(), headers: head.headers, message })
        }
    };
    Ok(answer.response())
}

fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(message.len() + FRAME_BYTES);
    bytes.put_u8(0);
    bytes.put_u32(message.len() as u32);
    bytes.put_slice(message);
    bytes.freeze()
}

fn status_map(code: i32, message: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status", code.into());
    let escaped: String = message.bytes().map(escape).collect();
    headers.insert("grpc-message", escaped.parse().unwrap());
    headers
}

/// As gRPC spells a message in a header.
fn escape(byte: u8) -> String {
    if (0x20..0x7f).contains(&byte) && byte != b'%' {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

#[cfg(test)]
mod tests;
