//! HTTP written by hand, for what a gRPC client would not send and for deadlines that only the server enforces.

use std::net::{SocketAddr, ToSocketAddrs as _};

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use prost::Message;
use tito_test_support::http::Call;
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
    let call = Call::get(resolved(address), path).method("POST").http2().body(body);
    let call = call.header("content-type", "application/grpc").header("te", "trailers");
    let reply = headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send().await;
    let status = [&reply.trailers, &reply.headers].into_iter().find_map(status_of);
    let (code, message) = status.unwrap_or_else(|| panic!("no gRPC status: HTTP {}", reply.status));
    Ended { code, message, body_bytes: reply.body.len() }
}

fn resolved(address: &str) -> SocketAddr {
    address.to_socket_addrs().expect("host and port").next().expect("an address of the host")
}

fn status_of(headers: &HeaderMap) -> Option<(Code, String)> {
    let code = Code::from_bytes(headers.get("grpc-status")?.as_bytes());
    let message = headers.get("grpc-message").and_then(|value| value.to_str().ok()).unwrap_or_default();
    Some((code, message.replace("%20", " ")))
}

/// `GET` over HTTP/1.1: status and body.
pub(crate) async fn get(address: &str, path: &str) -> (u16, String) {
    let reply = Call::get(resolved(address), path).send().await;
    (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
}
