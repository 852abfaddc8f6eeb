use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

/// The stable word in an error's `code`; also how a request ended, in metrics and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Code {
    BadJson,
    InvalidValue,
    ContextLengthExceeded,
    UnsupportedParameter,
    MediaNotCached,
    EngineRefused,
    InvalidHeader,
    IncompleteBody,
    InvalidApiKey,
    ModelNotFound,
    RouteNotFound,
    MethodNotAllowed,
    BodyTimeout,
    BodyTooLarge,
    MessageTooLarge,
    UnsupportedMediaType,
    UnsupportedEncoding,
    ExpectationFailed,
    Overloaded,
    HeadersTooLarge,
    ClientGone,
    Internal,
    Unsupported,
    WorkerLost,
    WorkerFailed,
    WorkerProtocol,
    NoWorker,
    WorkerUnreachable,
    ModelUnavailable,
    NotReady,
    Draining,
    ShutdownForced,
    WorkerStalled,
    DeadlineExceeded,
}

impl Code {
    /// The word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::BadJson => "bad_json",
            Self::InvalidValue => "invalid_value",
            Self::ContextLengthExceeded => "context_length_exceeded",
            Self::UnsupportedParameter => "unsupported_parameter",
            Self::MediaNotCached => "media_not_cached",
            Self::EngineRefused => "engine_refused",
            Self::InvalidHeader => "invalid_header",
            Self::IncompleteBody => "incomplete_body",
            Self::InvalidApiKey => "invalid_api_key",
            Self::ModelNotFound => "model_not_found",
            Self::RouteNotFound => "route_not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::BodyTimeout => "body_timeout",
            Self::BodyTooLarge => "body_too_large",
            Self::MessageTooLarge => "message_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::UnsupportedEncoding => "unsupported_encoding",
            Self::ExpectationFailed => "expectation_failed",
            Self::Overloaded => "overloaded",
            Self::HeadersTooLarge => "headers_too_large",
            Self::ClientGone => "client_gone",
            Self::Internal => "internal",
            Self::Unsupported => "unsupported",
            Self::WorkerLost => "worker_lost",
            Self::WorkerFailed => "worker_failed",
            Self::WorkerProtocol => "worker_protocol",
            Self::NoWorker => "no_worker",
            Self::WorkerUnreachable => "worker_unreachable",
            Self::ModelUnavailable => "model_unavailable",
            Self::NotReady => "not_ready",
            Self::Draining => "draining",
            Self::ShutdownForced => "shutdown_forced",
            Self::WorkerStalled => "worker_stalled",
            Self::DeadlineExceeded => "deadline_exceeded",
        }
    }
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        self.as_str().encode(encoder)
    }
}
