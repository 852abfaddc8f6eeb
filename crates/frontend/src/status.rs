//! The only place that decides which status a client sees.

mod code;

pub(crate) use code::Code;

use std::borrow::Cow;

use http::StatusCode;
use tito_formats::{Refusal, RefusalKind, sentence};
use tito_types::EngineError;

/// Longest message relayed to a client, in bytes; an engine may say more than anyone reads.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Capacity exists and is in use: it frees up all the time (seconds).
const OVERLOADED_RETRY_SECONDS: u32 = 1;
/// Another replica can take the request at once (seconds).
const DRAINING_RETRY_SECONDS: u32 = 1;
/// An engine has to come back first (seconds).
const UNAVAILABLE_RETRY_SECONDS: u32 = 5;

/// Everything that can end a request other than its reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A format found the body wrong.
    Refused(Refusal),
    /// The engine, or a layer around it, failed.
    Engine(EngineError),
    /// The front door did not let it in, or lost it.
    Door(Door),
}

/// What the front door finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Door {
    /// No key, or one that is not ours.
    Key,
    /// No such path.
    UnknownRoute,
    /// No such method on this path.
    Method,
    /// A header says something we cannot use.
    Header { name: &'static str, message: String },
    /// More headers, or longer ones, than allowed.
    Headers,
    /// An `Expect` other than `100-continue`.
    Expect,
    /// The body is not JSON by its own account.
    MediaType,
    /// The body is compressed.
    Encoding,
    /// The body is longer than allowed (bytes).
    BodyTooLarge { limit: usize },
    /// The rest of the body did not come in time.
    BodyTimeout,
    /// The body broke off.
    BodyBroken,
    /// The bodies of other requests leave no room, or no turn, for this one.
    Busy,
    /// As many orders are being carried out as may be.
    Underway,
    /// No model can be served now.
    NotReady,
    /// The client went away. Nobody reads this reply; it is for metrics and the log.
    ClientGone,
    /// Cut off at the end of the drain.
    Forced,
    /// A bug of ours.
    Bug,
}

/// The error classes that clients know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    InvalidRequest,
    Authentication,
    NotFound,
    RateLimit,
    Server,
}

impl Kind {
    /// The word in the envelope.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request_error",
            Self::Authentication => "authentication_error",
            Self::NotFound => "not_found_error",
            Self::RateLimit => "rate_limit_error",
            Self::Server => "server_error",
        }
    }
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) kind: Kind,
    pub(crate) code: Code,
    pub(crate) param: Option<String>,
    pub(crate) message: Cow<'static, str>,
    /// Seconds; present on 429 and 503, where trying again makes sense.
    pub(crate) retry_after_seconds: Option<u32>,
}

impl ApiError {
    fn new(status: StatusCode, kind: Kind, code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        let message = bounded(message.into());
        Self { status, kind, code, param: None, message, retry_after_seconds: None }
    }

    fn invalid(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Kind::InvalidRequest, code, message)
    }

    /// Fixed text: what went wrong inside stays in the log.
    fn server(status: StatusCode, code: Code, message: &'static str) -> Self {
        Self::new(status, Kind::Server, code, message)
    }

    fn unavailable(code: Code, retry_after_seconds: u32, message: impl Into<Cow<'static, str>>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, Kind::Server, code, message);
        Self { retry_after_seconds: Some(retry_after_seconds), ..error }
    }

    fn about(self, param: Option<String>) -> Self {
        Self { param, ..self }
    }
}

/// The only function that turns a failure into what a client is told.
pub(crate) fn rescue(failure: &Failure) -> ApiError {
    match failure {
        Failure::Refused(refusal) => refused(refusal),
        Failure::Engine(error) => engine_failed(error),
        Failure::Door(door) => turned_away(door),
    }
}

fn refused(refusal: &Refusal) -> ApiError {
    let Refusal { kind, param, message } = refusal;
    let message = sentence(param.as_deref(), message);
    let error = match kind {
        RefusalKind::BadJson => ApiError::invalid(Code::BadJson, message),
        RefusalKind::Invalid => ApiError::invalid(Code::InvalidValue, message),
        RefusalKind::ContextLength => ApiError::invalid(Code::ContextLengthExceeded, message),
        RefusalKind::NotExpressible => ApiError::invalid(Code::UnsupportedParameter, message),
        RefusalKind::MediaNotCached => ApiError::invalid(Code::MediaNotCached, message),
        RefusalKind::UnknownModel => {
            ApiError::new(StatusCode::NOT_FOUND, Kind::NotFound, Code::ModelNotFound, message)
        }
        RefusalKind::ModelUnavailable => {
            ApiError::unavailable(Code::ModelUnavailable, UNAVAILABLE_RETRY_SECONDS, message)
        }
    };
    error.about(param.clone())
}

fn engine_failed(error: &EngineError) -> ApiError {
    use StatusCode as S;
    match error {
        EngineError::Invalid { param, message } => {
            ApiError::invalid(Code::InvalidValue, sentence(Some(param), message)).about(Some(param.clone()))
        }
        EngineError::Refused(words) => ApiError::invalid(Code::EngineRefused, words.clone()),
        EngineError::NotFound(words) => {
            ApiError::new(S::NOT_FOUND, Kind::NotFound, Code::ModelNotFound, words.clone())
        }
        EngineError::TooLarge(words) => {
            ApiError::new(S::PAYLOAD_TOO_LARGE, Kind::InvalidRequest, Code::MessageTooLarge, words.clone())
        }
        EngineError::Unsupported(_) => {
            ApiError::server(S::NOT_IMPLEMENTED, Code::Unsupported, "the engine has no such feature")
        }
        EngineError::Overloaded(_) => ApiError {
            retry_after_seconds: Some(OVERLOADED_RETRY_SECONDS),
            ..ApiError::new(
                S::TOO_MANY_REQUESTS,
                Kind::RateLimit,
                Code::Overloaded,
                "every engine is busy; try again shortly",
            )
        },
        EngineError::NoWorker(_) => ApiError::unavailable(
            Code::NoWorker,
            UNAVAILABLE_RETRY_SECONDS,
            "no engine can take the request now",
        ),
        EngineError::Draining => {
            ApiError::unavailable(Code::Draining, DRAINING_RETRY_SECONDS, "this server is shutting down")
        }
        EngineError::Connect(..) => ApiError::unavailable(
            Code::WorkerUnreachable,
            UNAVAILABLE_RETRY_SECONDS,
            "the engine could not be reached",
        ),
        EngineError::Lost(..) | EngineError::Truncated => {
            ApiError::server(S::BAD_GATEWAY, Code::WorkerLost, "the engine was lost before it had finished")
        }
        EngineError::Stalled(_) => {
            ApiError::server(S::GATEWAY_TIMEOUT, Code::WorkerStalled, "the engine stopped making progress")
        }
        EngineError::Deadline(_) => {
            ApiError::server(S::GATEWAY_TIMEOUT, Code::DeadlineExceeded, "the engine's deadline passed")
        }
        EngineError::Engine(..) => {
            ApiError::server(S::BAD_GATEWAY, Code::WorkerFailed, "the engine failed on this request")
        }
        EngineError::Protocol(_) => {
            ApiError::server(S::BAD_GATEWAY, Code::WorkerProtocol, "the engine's answer made no sense")
        }
    }
}

fn turned_away(door: &Door) -> ApiError {
    use StatusCode as S;
    let request = |status, code, message| ApiError::new(status, Kind::InvalidRequest, code, message);
    match door {
        Door::Key => ApiError::new(
            S::UNAUTHORIZED,
            Kind::Authentication,
            Code::InvalidApiKey,
            "a valid key is needed: Authorization: Bearer KEY, or X-Api-Key: KEY",
        ),
        Door::UnknownRoute => {
            ApiError::new(S::NOT_FOUND, Kind::NotFound, Code::RouteNotFound, "no such route")
        }
        Door::Method => request(
            S::METHOD_NOT_ALLOWED,
            Code::MethodNotAllowed,
            "the route does not take this method; see the Allow header",
        ),
        Door::Header { name, message } => {
            ApiError::invalid(Code::InvalidHeader, format!("header {name} {message}"))
                .about(Some((*name).to_owned()))
        }
        Door::Headers => {
            request(S::REQUEST_HEADER_FIELDS_TOO_LARGE, Code::HeadersTooLarge, "too many or too long headers")
        }
        Door::Expect => {
            request(S::EXPECTATION_FAILED, Code::ExpectationFailed, "only Expect: 100-continue is understood")
        }
        Door::MediaType => request(
            S::UNSUPPORTED_MEDIA_TYPE,
            Code::UnsupportedMediaType,
            "the body must be JSON: Content-Type: application/json",
        ),
        Door::Encoding => request(
            S::UNSUPPORTED_MEDIA_TYPE,
            Code::UnsupportedEncoding,
            "the body must not be compressed: no Content-Encoding, and no Transfer-Encoding but chunked",
        ),
        Door::BodyTooLarge { limit } => ApiError::new(
            S::PAYLOAD_TOO_LARGE,
            Kind::InvalidRequest,
            Code::BodyTooLarge,
            format!("the body is larger than {limit} bytes"),
        ),
        Door::BodyTimeout => {
            request(S::REQUEST_TIMEOUT, Code::BodyTimeout, "the rest of the body did not come in time")
        }
        Door::BodyBroken => request(S::BAD_REQUEST, Code::IncompleteBody, "the body broke off"),
        Door::Busy => ApiError {
            retry_after_seconds: Some(OVERLOADED_RETRY_SECONDS),
            ..ApiError::new(
                S::TOO_MANY_REQUESTS,
                Kind::RateLimit,
                Code::Overloaded,
                "too many large requests are being received; try again shortly",
            )
        },
        Door::Underway => ApiError {
            retry_after_seconds: Some(OVERLOADED_RETRY_SECONDS),
            ..ApiError::new(
                S::TOO_MANY_REQUESTS,
                Kind::RateLimit,
                Code::Overloaded,
                "too many orders are being carried out; try again shortly",
            )
        },
        Door::NotReady => ApiError::unavailable(
            Code::NotReady,
            UNAVAILABLE_RETRY_SECONDS,
            "no model can be served now; see reasons",
        ),
        Door::ClientGone => request(client_closed_request(), Code::ClientGone, "the client went away"),
        Door::Forced => ApiError::unavailable(
            Code::ShutdownForced,
            DRAINING_RETRY_SECONDS,
            "this server shut down before the request had finished",
        ),
        Door::Bug => ApiError::server(S::INTERNAL_SERVER_ERROR, Code::Internal, "internal error"),
    }
}

/// The usual number for a client that left; logs and metrics only.
fn client_closed_request() -> StatusCode {
    StatusCode::from_u16(499).expect("499 is a three-digit number")
}

/// Cuts at a character boundary.
fn bounded(message: Cow<'static, str>) -> Cow<'static, str> {
    if message.len() <= MESSAGE_BYTES_MAX {
        return message;
    }
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
    Cow::Owned(format!("{}…", &message[..end]))
}

#[cfg(test)]
mod tests;
