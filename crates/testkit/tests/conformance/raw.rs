//! HTTP written by hand, for what a gRPC client would not send and for deadlines that only the server enforces.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::Code;

/// What a call ended with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    pub(crate) code: Code,
    /// As the header spells it, percent escapes of blanks undone.
    pub(crate) message: String,
    /// Bytes of all messages with their frames.
    pub(crate) body_bytes: usize,
}

/// One message as a gRPC frame.
pub(crate) fn frame(message: &impl Message) -> Bytes {
    framed(false, &message.encode_to_vec())
}

/// Any payload as a gRPC frame.
pub(crate) fn framed(compressed: bool, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(payload.len() + 5);
    bytes.put_u8(u8::from(compressed));
    bytes.put_u32(payload.len() as u32);
    bytes.put_slice(payload);
    bytes.freeze()
}

/// One call over a connection of its own, to its end.
pub(crate) async fn call(address: &str, path: &str, headers: &[(&str, &str)], body: Bytes) -> Ended {
    let socket = TcpStream::connect(address).await.expect("the engine listens");
    let http2 = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket));
    let (mut sender, connection) = http2.await.expect("the engine speaks HTTP/2");
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let request = Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let request = request.body(Full::new(body)).expect("a valid request");
    let reply = sender.send_request(request).await.expect("the engine answers");
    end_of(reply).await
}

async fn end_of(reply: Response<Incoming>) -> Ended {
    let (head, body) = reply.into_parts();
    let body = body.collect().await.expect("the reply ends in order");
    let trailers = body.trailers().cloned().unwrap_or_default();
    let status = [&trailers, &head.headers].into_iter().find_map(status_of);
    let (code, message) = status.unwrap_or_else(|| panic!("no gRPC status: HTTP {}", head.status));
    Ended { code, message, body_bytes: body.to_bytes().len() }
}

fn status_of(headers: &HeaderMap) -> Option<(Code, String)> {
    let code = Code::from_bytes(headers.get("grpc-status")?.as_bytes());
    let message = headers.get("grpc-message").and_then(|value| value.to_str().ok()).unwrap_or_default();
    Some((code, message.replace("%20", " ")))
}

/// `GET` over HTTP/1.1: status and body.
pub(crate) async fn get(address: &str, path: &str) -> (u16, String) {
    let socket = TcpStream::connect(address).await.expect("the engine's HTTP server listens");
    let http1 = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = http1.expect("the engine speaks HTTP/1.1");
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let request = Request::get(path).header("host", address).body(Full::<Bytes>::default());
    let reply = sender.send_request(request.expect("a valid request")).await.expect("the engine answers");
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.expect("the reply ends in order").to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}
