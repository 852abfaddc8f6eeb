use std::error::Error as _;

use tito_runtime::Chain;
use tito_types::{EngineError, Media, WorkerId};
use tonic::{Code, Status};

/// How far a call had come when its status arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// No output was received; information about the prompt does not count.
    Unanswered,
    /// Some output was received.
    Answered,
}

/// Media that the request carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// None.
    Nothing,
    /// Payloads that the engine takes as they are.
    Features,
    /// What the engine fetches, decodes and puts into the prompt.
    Raw,
}

impl Carried {
    pub(crate) fn of(media: &Media) -> Self {
        match media {
            Media::None => Self::Nothing,
            Media::Features(_) => Self::Features,
            Media::Raw(_) => Self::Raw,
        }
    }
}

/// How vLLM 0.32 begins every word about raw media that it cannot fetch, decode or find a placeholder for. Of an engine
/// that died, or that failed on the request, it speaks otherwise.
const RAW_MEDIA: &str = "multimodal preprocessing error: ";
/// Most of those words that a client is told, in bytes.
const RAW_MEDIA_BYTES_MAX: usize = 256;
/// Most of them that the log takes, in bytes.
const LOGGED_BYTES_MAX: usize = 1 << 10;

/// The only reading of a gRPC status (vLLM 0.32). What a client is told about each is in docs/errors.md.
pub(crate) fn engine_error(
    worker: &WorkerId,
    status: &Status,
    progress: Progress,
    carried: Carried,
) -> EngineError {
    if let Some(words) = raw_media_words(status, progress, carried) {
        return raw_media_refused(words);
    }
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
        Code::ResourceExhausted if carried == Carried::Features => EngineError::TooLarge(message),
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

/// What the engine says about the client's raw media, where that is why it failed: as INTERNAL, though nothing is wrong
/// with the engine.
pub(crate) fn raw_media_words(status: &Status, progress: Progress, carried: Carried) -> Option<&str> {
    let about_media = status.code() == Code::Internal && carried == Carried::Raw;
    let words = status.message().strip_prefix(RAW_MEDIA)?;
    (about_media && progress == Progress::Unanswered).then_some(words)
}

/// Those words for the log. What stands behind the host of an address, such as a signature, may be a credential.
pub(crate) fn without_secrets(words: &str) -> String {
    let shown: Vec<&str> = words.split(' ').map(origin).collect();
    let mut shown = shown.join(" ");
    shown.truncate(shown.floor_char_boundary(LOGGED_BYTES_MAX));
    shown
}

/// A word that is an address, up to its host; nothing of one that may name a user; another one as it is.
fn origin(word: &str) -> &str {
    if word.contains('@') {
        return "…";
    }
    let Some(start) = word.find("://").map(|at| at + 3) else { return word };
    let end = word[start..].find(['/', '?', '#']).map_or(word.len(), |length| start + length);
    &word[..end]
}

/// The client is told what kind of failure it was. Behind the first colon are what answered at an address within the
/// engine's network, and the output of tools, with their paths: those words are for the log.
fn raw_media_refused(words: &str) -> EngineError {
    let kind = words.split(": ").next().unwrap_or(words);
    // No kind that is known holds any of these; paths and addresses do.
    let foreign = |c: char| matches!(c, '/' | '\\' | '.' | '@') || c.is_control();
    let kind = if kind.contains(foreign) { "preprocessing failed" } else { kind };
    let kind = &kind[..kind.floor_char_boundary(RAW_MEDIA_BYTES_MAX)];
    EngineError::Invalid {
        param: "content_parts".to_owned(),
        message: format!("cannot be used by the engine: {kind}"),
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
    let shown = format!("{:?}: {}", status.code(), without_secrets(status.message()));
    match status.source() {
        Some(cause) => format!("{shown}: {}", Chain(cause)),
        None => shown,
    }
}

#[cfg(test)]
mod tests;
