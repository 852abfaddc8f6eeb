//! One request, from its number to its verdict.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};

use crate::config::Limits;
use crate::connection::{Pool, Transport};
use crate::failure::{Failure, FailureKind};
use crate::reply::{Expected, Reply};
use crate::sse;
use crate::target::RequestHead;
use crate::workload::Workload;

/// Bytes of an error reply that are read for its message.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Sends requests by number and checks what comes back.
#[derive(Debug)]
pub(crate) struct Caller<T> {
    pub(crate) pool: Arc<Pool<T>>,
    pub(crate) head: RequestHead,
    pub(crate) workload: Workload,
    pub(crate) expected: Expected,
    pub(crate) stream: bool,
    pub(crate) limits: Limits,
}

/// A reply that was right, and when its parts came.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
    /// When each event with output came; empty for a unary reply.
    pub(crate) outputs: Vec<Instant>,
    /// When the last byte came.
    pub(crate) finished: Instant,
}

impl<T: Transport> Caller<T> {
    /// Sends request `number` and reads its reply to the end, within the time limit.
    pub(crate) async fn call(&self, number: u64) -> Result<Delivered, Failure> {
        let limit = self.limits.request_timeout;
        let call = timeout(limit, self.call_without_limit(number));
        call.await.unwrap_or_else(|_| {
            let detail = format!("no complete reply within {} s", limit.as_secs_f64());
            Err(Failure::new(FailureKind::Timeout, detail))
        })
    }

    async fn call_without_limit(&self, number: u64) -> Result<Delivered, Failure> {
        let body = self.workload.body(number);
        let (response, connection) = self.pool.send(self.head.with(body.json)).await?;
        let (head, mut incoming) = response.into_parts();
        if head.status != StatusCode::OK {
            let kind = FailureKind::Status(head.status.as_u16());
            let text = read_whole(&mut incoming, ERROR_BYTES_MAX).await;
            // An error reply that cannot be read to its end is not worth its connection.
            let text = text.inspect(|_| self.pool.release(connection)).unwrap_or_default();
            return Err(Failure::quoting(kind, "", &text));
        }
        let mut reply = Reply::default();
        let mut outputs = Vec::new();
        let finished = if self.stream {
            if !is_event_stream(&head.headers) {
                return Err(Failure::new(FailureKind::BadStream, "the reply is not text/event-stream"));
            }
            self.read_events(&mut incoming, &mut reply, &mut outputs).await?
        } else {
            let whole = read_whole(&mut incoming, self.limits.reply_bytes_max).await?;
            let finished = Instant::now();
            reply.add_json(&whole)?;
            finished
        };
        self.pool.release(connection);
        let output_tokens = reply.verify(self.expected)?;
        Ok(Delivered { prompt_tokens: body.prompt_tokens, output_tokens, outputs, finished })
    }

    async fn read_events(
        &self,
        incoming: &mut Incoming,
        reply: &mut Reply,
        outputs: &mut Vec<Instant>,
    ) -> Result<Instant, Failure> {
        let mut parser = sse::Parser::new(self.limits.reply_bytes_max);
        let mut finished = Instant::now();
        while let Some(piece) = next_piece(incoming).await? {
            finished = Instant::now();
            parser.push(&piece, |event| {
                // More events than tokens is a wrong reply, found out at its end; only the memory is bounded here.
                if reply.add_event(event)? && outputs.len() <= self.expected.output_tokens as usize {
                    outputs.push(finished);
                }
                Ok::<(), Failure>(())
            })?;
        }
        if !parser.is_between_events() {
            return Err(Failure::new(FailureKind::BadStream, "the stream ended inside an event"));
        }
        if !reply.is_done() {
            return Err(Failure::new(FailureKind::BadStream, "the stream ended before [DONE]"));
        }
        Ok(finished)
    }
}

/// The next bytes of a body; none at its end.
async fn next_piece(incoming: &mut Incoming) -> Result<Option<Bytes>, Failure> {
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| Failure::from_error(FailureKind::ConnectionLost, &error))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// A whole body of at most `bytes_max`.
pub(crate) async fn read_whole(incoming: &mut Incoming, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let mut whole = Vec::new();
    while let Some(piece) = next_piece(incoming).await? {
        if whole.len() + piece.len() > bytes_max {
            let detail = format!("the reply is larger than {bytes_max} bytes");
            return Err(Failure::new(FailureKind::TooLarge, detail));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

/// A server that ignores `stream` should be told apart from one that breaks its stream.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|media_type| media_type.trim_start().starts_with("text/event-stream"))
}

#[cfg(test)]
mod tests;
