use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Version};
use http_body::Frame;
use tito_engine::{TokenStream, open};
use tito_formats::{Bound, Exchange, Segments, error_event};
use tito_types::{Delta, EngineError};
use tokio::time::{Instant, Sleep, sleep};

use super::{DELIVERED, h2};
use crate::app::App;
use crate::placement::X_TITO_ROUTE;
use crate::record::Record;
use crate::status::{Code, Failure};

/// Deltas that are ready together leave in one write until it holds this much (bytes).
const WRITE_BYTES_MAX: usize = 32 << 10;
/// A comment: every client skips it.
const PING: &[u8] = b": ping\n\n";
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Opens the stream, then sends events as the client takes them.
///
/// The reply's body polls the engine's stream itself: a client that does not read holds back the engine, and
/// nothing is buffered for it beyond one write. Dropping the body, or this handler, aborts the request.
pub(super) async fn respond(app: &Arc<App>, bound: Bound, mut record: Record, version: Version) -> Response {
    let stream = match open(&app.engine, bound.requests).await {
        Ok(stream) => stream,
        Err(error) => {
            record.usage(bound.exchange.usage());
            return record.refuse(&Failure::Engine(error));
        }
    };
    record.placed(stream.places());
    let route = record.route_header();
    let events = Events {
        stream: Some(stream),
        exchange: bound.exchange,
        record,
        parts: VecDeque::new(),
        last_write_bytes: 0,
        ping: app.stream_ping.map(Ping::new),
    };
    let mut response = Response::new(Body::new(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    headers.extend(route.map(|value| (X_TITO_ROUTE, value)));
    h2::guard(app, response, version)
}

/// The body of a streamed reply.
struct Events {
    /// Gone once the last event is in `parts`.
    stream: Option<TokenStream>,
    exchange: Box<dyn Exchange>,
    record: Record,
    /// Made and not yet taken; the pieces of one write.
    parts: VecDeque<Bytes>,
    /// Size of the last write, the best guess at the next.
    last_write_bytes: usize,
    ping: Option<Ping>,
}

impl Events {
    /// Takes what the engine has ready, up to one write. Pending when there is nothing to say.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut out = Segments::default();
        while out.len() < WRITE_BYTES_MAX {
            let Some(stream) = &mut self.stream else { break };
            match Pin::new(stream).poll_next(context) {
                Poll::Ready(Some(item)) => {
                    if out.is_empty() {
                        out.tail().reserve(self.last_write_bytes);
                    }
                    if let Err(error) = item.and_then(|delta| self.frame(delta, &mut out)) {
                        self.fail(error, &mut out);
                    }
                }
                Poll::Ready(None) => self.close(&mut out),
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        self.last_write_bytes = out.len().min(WRITE_BYTES_MAX);
        self.record.sent(out.len());
        self.parts.extend(out.into_parts().into_iter().map(Bytes::from));
        Poll::Ready(())
    }

    fn frame(&mut self, delta: Delta, out: &mut Segments) -> Result<(), EngineError> {
        self.record.delta(&delta);
        self.exchange.frame(delta, out)
    }

    /// The last events of a stream that went well.
    fn close(&mut self, out: &mut Segments) {
        self.stream = None;
        self.exchange.close(out);
        self.end(None);
    }

    /// The last events of a stream that did not.
    fn fail(&mut self, error: EngineError, out: &mut Segments) {
        self.stream = None;
        let told = self.record.rescue(&Failure::Engine(error));
        out.append(error_event(&told.envelope()));
        self.end(Some(told.code));
    }

    fn end(&mut self, code: Option<Code>) {
        self.record.usage(self.exchange.usage());
        self.record.end(DELIVERED, code);
    }
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.parts.is_empty() && this.stream.is_some() {
            if this.poll_write(context).is_ready() {
                this.ping.iter_mut().for_each(Ping::wrote);
            } else if let Some(ping) = &mut this.ping {
                ready!(ping.poll_due(context));
                this.record.sent(PING.len());
                this.parts.push_back(Bytes::from_static(PING));
            } else {
                return Poll::Pending;
            }
        }
        Poll::Ready(this.parts.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_none() && self.parts.is_empty()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // A stream that was cut short still tells what it had delivered.
        self.record.usage(self.exchange.usage());
    }
}

/// Says something into a silence of a given length.
struct Ping {
    interval: Duration,
    last_write: Instant,
    due: Pin<Box<Sleep>>,
}

impl Ping {
    fn new(interval: Duration) -> Self {
        Self { interval, last_write: Instant::now(), due: Box::pin(sleep(interval)) }
    }

    fn wrote(&mut self) {
        self.last_write = Instant::now();
    }

    /// Ready when nothing was written for an interval. The timer is moved only when it fires, not at every write.
    fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.due.as_mut().poll(context).is_ready() {
            let silent = self.last_write.elapsed() >= self.interval;
            if silent {
                self.last_write = Instant::now();
            }
            self.due.as_mut().reset(self.last_write + self.interval);
            if silent {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}
