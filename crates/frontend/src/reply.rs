//! Whole replies with their headers, and the error envelope around what went wrong.
//!
//! It must not decide which status a failure has: that is `status`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use http_body::{Frame, SizeHint};
use tito_formats::{Segments, error_body};

use crate::status::{ApiError, Code};

/// Carries the request's id back.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Tells OpenAI's SDK that trying again makes sense.
const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A whole JSON reply.
pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// A whole JSON reply in as many pieces as there are: large values are not copied together.
pub(crate) fn segments(segments: Segments) -> Response {
    let mut response = Response::new(Body::new(SegmentsBody::new(segments)));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = self.envelope();
        self.with_body(body)
    }
}

impl ApiError {
    /// The body: an object with the one key `error`.
    pub(crate) fn envelope(&self) -> Vec<u8> {
        error_body(&self.message, self.kind.as_str(), self.param.as_deref(), self.code.as_str())
    }

    /// The same answer with another body.
    pub(crate) fn with_body(self, body: Vec<u8>) -> Response {
        let mut response = json(self.status, body);
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            headers.insert(X_SHOULD_RETRY, HeaderValue::from_static("true"));
        }
        if self.code == Code::InvalidApiKey {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tito\""));
        }
        response.extensions_mut().insert(self.code);
        response
    }
}

/// Pieces of known total length.
struct SegmentsBody {
    parts: vec::IntoIter<Vec<u8>>,
    remaining_bytes: u64,
}

impl SegmentsBody {
    fn new(segments: Segments) -> Self {
        let remaining_bytes = segments.len() as u64;
        Self { parts: segments.into_parts().into_iter(), remaining_bytes }
    }
}

impl http_body::Body for SegmentsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = self.parts.next().map(Bytes::from);
        self.remaining_bytes -= part.as_ref().map_or(0, |part| part.len() as u64);
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining_bytes)
    }
}
