//! gRPC by hand: message bytes in, message bytes out, whatever they hold.

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::{Service, ServiceExt};

/// One message with its five-byte head.
pub(crate) fn frame(message: &[u8], compressed: bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.put_u8(u8::from(compressed));
    frame.put_u32(message.len() as u32);
    frame.put_slice(message);
    frame.freeze()
}

/// A reply in progress.
pub(crate) struct Reply {
    body: Body,
    buffer: BytesMut,
    /// Known from the head if the call failed at once, from the trailers otherwise.
    status: Option<Status>,
}

/// Sends a request. An error is a connection that failed.
pub(crate) async fn call(
    channel: &mut Channel,
    path: &str,
    metadata: &[(String, String)],
    body: Bytes,
) -> Result<Reply, Status> {
    let mut request =
        http::Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    for (name, value) in metadata {
        request = request.header(name, value);
    }
    let request = request.body(Body::new(Full::new(body))).unwrap();
    let unavailable = |error: tonic::transport::Error| Status::from_error(Box::new(error));
    let response = channel.ready().await.map_err(unavailable)?.call(request).await.map_err(unavailable)?;
    let (head, body) = response.into_parts();
    Ok(Reply { body, buffer: BytesMut::new(), status: status_of(&head.headers) })
}

impl Reply {
    /// The next message, or how the call ended: OK, a status, or a broken connection.
    pub(crate) async fn message(&mut self) -> Result<Bytes, Status> {
        loop {
            if self.buffer.len() >= 5 {
                let length = u32::from_be_bytes(self.buffer[1..5].try_into().unwrap()) as usize;
                if self.buffer.len() >= 5 + length {
                    let message = self.buffer.split_to(5 + length).freeze();
                    return Ok(message.slice(5..));
                }
            }
            let Some(next) = self.body.frame().await else {
                return Err(self.status.take().unwrap_or_else(|| Status::unknown("no status")));
            };
            let next = next.map_err(|_| Status::unavailable("the connection broke"))?;
            match next.into_data() {
                Ok(data) => self.buffer.extend_from_slice(&data),
                Err(other) => self.status = other.into_trailers().ok().as_ref().and_then(status_of),
            }
        }
    }
}

fn status_of(headers: &HeaderMap) -> Option<Status> {
    let code: i32 = headers.get("grpc-status")?.to_str().unwrap().parse().unwrap();
    Some(Status::new(Code::from_i32(code), ""))
}
