//! How a request can fail, as counted in a report.

use std::error::Error;
use std::fmt;

/// Characters of an example that a report keeps.
const DETAIL_CHARS_MAX: usize = 200;

/// The kinds a failed request is counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// No connection could be opened.
    Connect,
    /// The connection ended before the reply did.
    ConnectionLost,
    /// The reply was not complete within the limit.
    Timeout,
    /// A status other than 200.
    Status(u16),
    /// A reply, or one event of a stream, beyond the size limit.
    TooLarge,
    /// The reply, or the data of an event, is not JSON of the expected shape.
    BadJson,
    /// The stream broke its own rules: no `[DONE]`, or something after it, or output after the finish reason.
    BadStream,
    /// An error reported inside a 200.
    ErrorReply,
    /// No finish reason, or one that does not fit what was asked.
    FinishReason,
    /// Fewer or more tokens than asked, or ids and usage disagree.
    TokenCount,
    /// Neither ids nor usage tell how many tokens came.
    NoTokenCount,
    /// A session goes on from the ids of a reply, and there are none.
    NoTokenIds,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::ConnectionLost => "connection_lost",
            Self::Timeout => "timeout",
            Self::Status(status) => return write!(f, "status_{status}"),
            Self::TooLarge => "too_large",
            Self::BadJson => "bad_json",
            Self::BadStream => "bad_stream",
            Self::ErrorReply => "error_reply",
            Self::FinishReason => "finish_reason",
            Self::TokenCount => "token_count",
            Self::NoTokenCount => "no_token_count",
            Self::NoTokenIds => "no_token_ids",
        })
    }
}

/// One failed request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// What a reader needs to believe it, cut to a bounded length.
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, detail: impl fmt::Display) -> Self {
        let detail = detail.to_string();
        let end = detail.char_indices().nth(DETAIL_CHARS_MAX).map_or(detail.len(), |(at, _)| at);
        Self { kind, detail: detail[..end].to_owned() }
    }

    /// The start of a foreign body as detail.
    pub(crate) fn quoting(kind: FailureKind, what: &str, body: &[u8]) -> Self {
        let start = &body[..body.len().min(4 * DETAIL_CHARS_MAX)];
        Self::new(kind, format_args!("{what}{}", String::from_utf8_lossy(start)))
    }

    /// An error with its causes as detail.
    pub(crate) fn from_error(kind: FailureKind, error: &dyn Error) -> Self {
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            detail = format!("{detail}: {cause}");
            source = cause.source();
        }
        Self::new(kind, detail)
    }
}

impl From<crate::sse::TooLarge> for Failure {
    fn from(_: crate::sse::TooLarge) -> Self {
        Self::new(FailureKind::TooLarge, "an event of the stream is larger than the limit")
    }
}
