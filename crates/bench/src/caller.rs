//! One request, from its number to its verdict.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};

use crate::config::Limits;
use crate::connection::{Pool, Transport};
use crate::failure::{Failure, FailureKind};
use crate::lag::LoopLag;
use crate::reply::{Carried, Expected, Reply};
use crate::sse;
use crate::target::RequestHead;
use crate::workload::{Body, Workload};

/// Bytes of an error reply that are read for its message.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Sends requests by number and checks what comes back.
#[derive(Debug)]
pub(crate) struct Caller<T> {
    pub(crate) pool: Arc<Pool<T>>,
    pub(crate) head: RequestHead,
    pub(crate) workload: Workload,
    pub(crate) ignore_eos: bool,
    pub(crate) stream: bool,
    pub(crate) limits: Limits,
    pub(crate) lag: Arc<LoopLag>,
}

/// One request that ended, well or not, and when the parts of its reply came.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) prompt_tokens: u32,
    /// Output tokens that were asked for.
    pub(crate) wanted_tokens: u32,
    pub(crate) stream: bool,
    /// Each event with output, those before a failure included; empty for a unary reply.
    pub(crate) outputs: Vec<Output>,
    /// When the last byte came, or when the request failed.
    pub(crate) ended: Instant,
    /// How late the last piece may have been read.
    pub(crate) read_lag: Duration,
    /// Output tokens of a right reply.
    pub(crate) result: Result<u32, Failure>,
    /// The ids of a right reply, where a session goes on from them.
    pub(crate) ids: Vec<u32>,
}

/// One event with output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) at: Instant,
    /// Ids it carried; none where the server sends none.
    pub(crate) tokens: Option<u32>,
    /// How late it may have been read, microseconds.
    pub(crate) lag_micros: u32,
}

/// When the parts of a reply came.
#[derive(Debug, Default)]
struct Parts {
    outputs: Vec<Output>,
    /// When the last piece came, and how late it may have been read.
    last: Option<(Instant, Duration)>,
}

impl<T: Transport> Caller<T> {
    /// Sends a request and reads its reply to the end, within the time limit.
    pub(crate) async fn call(&self, body: Body) -> Call {
        let limit = self.limits.request_timeout;
        let expected = Expected { output_tokens: body.output_tokens, ignore_eos: self.ignore_eos };
        let mut parts = Parts::default();
        let reply = timeout(limit, self.call_without_limit(body.json, expected, &mut parts)).await;
        let result = reply.unwrap_or_else(|_| {
            let detail = format!("no complete reply within {} s", limit.as_secs_f64());
            Err(Failure::new(FailureKind::Timeout, detail))
        });
        let (result, ids) = match result {
            Ok((tokens, ids)) => (Ok(tokens), ids),
            Err(failure) => (Err(failure), Vec::new()),
        };
        let last = parts.last.filter(|_| result.is_ok());
        let (ended, read_lag) = last.unwrap_or_else(|| (Instant::now(), Duration::ZERO));
        Call {
            prompt_tokens: body.prompt_tokens,
            wanted_tokens: body.output_tokens,
            stream: self.stream,
            outputs: parts.outputs,
            ended,
            read_lag,
            result,
            ids,
        }
    }

    /// Output tokens of a right reply, and its ids where a session goes on from them.
    async fn call_without_limit(
        &self,
        body: Bytes,
        expected: Expected,
        parts: &mut Parts,
    ) -> Result<(u32, Vec<u32>), Failure> {
        let (response, connection) = self.pool.send(self.head.with(body)).await?;
        let (head, mut incoming) = response.into_parts();
        if head.status != StatusCode::OK {
            let kind = FailureKind::Status(head.status.as_u16());
            let text = read_whole(&mut incoming, ERROR_BYTES_MAX).await;
            // An error reply that cannot be read to its end is not worth its connection.
            let text = text.inspect(|_| self.pool.release(connection)).unwrap_or_default();
            return Err(Failure::quoting(kind, "", &text));
        }
        let sessions = self.workload.has_sessions();
        let mut reply = if sessions { Reply::keeping(expected.output_tokens) } else { Reply::default() };
        if self.stream {
            if !is_event_stream(&head.headers) {
                return Err(Failure::new(FailureKind::BadStream, "the reply is not text/event-stream"));
            }
            self.read_events(&mut incoming, &mut reply, expected, parts).await?;
        } else {
            let whole = read_whole(&mut incoming, self.limits.reply_bytes_max).await?;
            parts.last = Some(self.read_now());
            reply.add_json(&whole)?;
        }
        self.pool.release(connection);
        let tokens = reply.verify(expected)?;
        Ok((tokens, reply.into_ids()))
    }

    /// The moment of a read, and how late it may be.
    fn read_now(&self) -> (Instant, Duration) {
        let now = Instant::now();
        (now, self.lag.at(now))
    }

    async fn read_events(
        &self,
        incoming: &mut Incoming,
        reply: &mut Reply,
        expected: Expected,
        parts: &mut Parts,
    ) -> Result<(), Failure> {
        let mut parser = sse::Parser::new(self.limits.reply_bytes_max);
        while let Some(piece) = next_piece(incoming).await? {
            let (at, lag) = self.read_now();
            parts.last = Some((at, lag));
            let lag_micros = u32::try_from(lag.as_micros()).unwrap_or(u32::MAX);
            parser.push(&piece, |event| {
                let carried = reply.add_event(event)?;
                // More events than tokens is a wrong reply, found out at its end; only the memory is bounded here.
                if let Some(Carried { tokens }) = carried
                    && parts.outputs.len() <= expected.output_tokens as usize
                {
                    parts.outputs.push(Output { at, tokens, lag_micros });
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
        Ok(())
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
