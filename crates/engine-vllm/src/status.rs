use std::error::Error as _;

use tito_runtime::Chain;
use tito_types::{EngineError, WorkerId};
use tonic::{Code, Status};

/// How far a call had come when its status arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// No output was received; information about the prompt does not count.
    Unanswered,
    /// Some output was received.
    Answered,
}

/// The only reading of a gRPC status (vLLM 0.32). What a client is told about each is in docs/errors.md. `inline_media`
/// when the request carried media payloads.
pub(crate) fn engine_error(
    worker: &WorkerId,
    status: &Status,
    progress: Progress,
    inline_media: bool,
) -> EngineError {
    let worker = worker.clone();
    let message = status.message().to_owned();
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::AlreadyExists => {
            EngineError::Refused(message)
        }
        Code::NotFound => EngineError::NotFound(message),
        // vLLM: a message over 32 MiB is OUT_OF_RANGE, inline media over 16 MiB RESOURCE_EXHAUSTED; it
        // says that about nothing else.
        Code::OutOfRange => EngineError::TooLarge(message),
        Code::ResourceExhausted if inline_media => EngineError::TooLarge(message),
        Code::ResourceExhausted => EngineError::Overloaded(message),
        Code::Unimplemented => EngineError::Unsupported(message),
        // An expired deadline reads either way, whichever side notices first. We cancel by dropping the call, so a
        // CANCELLED that we see was never ours.
        Code::DeadlineExceeded => EngineError::Deadline(worker),
        Code::Cancelled if message == "Timeout expired" => EngineError::Deadline(worker),
        _ if went_away(status) => match progress {
            Progress::Unanswered => EngineError::Connect(worker, describe(status)),
            Progress::Answered => EngineError::Lost(worker, describe(status)),
        },
        Code::Ok => EngineError::Truncated,
        Code::Cancelled
        | Code::Unknown
        | Code::PermissionDenied
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => EngineError::Engine(worker, describe(status)),
    }
}

/// The transport failed, or the engine said that it is going: as opposed to an answer about this request.
fn went_away(status: &Status) -> bool {
    let transport = std::iter::successors(status.source(), |&error| error.source())
        .any(|error| is_transport(error) || is_h2(error));
    transport || status.code() == Code::Unavailable
}

/// A reply that breaks off is hyper's error alone: what is behind it is neither tonic's nor the system's.
fn is_transport(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<tonic::transport::Error>() || error.is::<hyper::Error>() || error.is::<std::io::Error>()
}

/// tonic reports a broken HTTP/2 connection as INTERNAL, UNKNOWN or CANCELLED with hyper's error behind it.
fn is_h2(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<tonic::ConnectError>() || error.is::<tonic::TimeoutExpired>() || {
        let text = error.to_string();
        text.starts_with("http2 error")
            || text.starts_with("connection error")
            || text.starts_with("stream error")
    }
}

/// Code, message and causes on one line, for the log.
pub(crate) fn describe(status: &Status) -> String {
    let shown = format!("{:?}: {}", status.code(), status.message());
    match status.source() {
        Some(cause) => format!("{shown}: {}", Chain(cause)),
        None => shown,
    }
}

#[cfg(test)]
mod tests;
