use std::fmt;

use crate::WorkerId;

/// Why a generation failed. Carries the decision its reader needs; nothing reads the text to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineError {
    /// A layer found the request impossible before it was sent. `param` is a JSON path in the client's body.
    Invalid {
        /// The field at fault.
        param: String,
        /// For the client.
        message: String,
    },
    /// The engine refused the request as invalid; its own words are for the client.
    Refused(String),
    /// The engine does not serve what was asked (model or adapter).
    NotFound(String),
    /// The encoded request is larger than the engine takes.
    TooLarge(String),
    /// The engine has no such feature.
    Unsupported(String),
    /// Capacity exists and is in use: the queue is full, its deadline passed, or the engine pushed back.
    Overloaded(String),
    /// No engine that serves the model can take a request.
    NoWorker(String),
    /// The process is shutting down.
    Draining,
    /// The engine could not be reached, or went away before it answered anything.
    Connect(WorkerId, String),
    /// The engine went away after it had begun to answer.
    Lost(WorkerId, String),
    /// The stream ended before every choice had a finish reason.
    Truncated,
    /// No progress within the stall timeout.
    Stalled(WorkerId),
    /// A deadline set for the call passed at the engine.
    Deadline(WorkerId),
    /// The engine answered with a failure of its own.
    Engine(WorkerId, String),
    /// The engine broke the wire contract: wrong counts, index, NaN.
    Protocol(String),
}

/// What may be done about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Nothing: another engine would say the same.
    Never,
    /// Send it to another engine: nothing was generated that anyone saw.
    OtherWorker,
    /// Send prompt and delivered tokens to another engine.
    Migrate,
    /// Come back later.
    Overloaded,
}

impl EngineError {
    /// The decision for layers that can try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Invalid { .. }
            | Self::Refused(_)
            | Self::NotFound(_)
            | Self::TooLarge(_)
            | Self::Unsupported(_)
            | Self::NoWorker(_)
            | Self::Draining
            | Self::Deadline(_)
            | Self::Engine(..)
            | Self::Protocol(_) => Retry::Never,
            Self::Overloaded(_) => Retry::Overloaded,
            Self::Connect(..) => Retry::OtherWorker,
            Self::Lost(..) | Self::Truncated | Self::Stalled(_) => Retry::Migrate,
        }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { param, message } => write!(f, "{param}: {message}"),
            Self::Refused(message) => write!(f, "engine refused the request: {message}"),
            Self::NotFound(message) => write!(f, "engine does not serve this: {message}"),
            Self::TooLarge(message) => write!(f, "request too large for the engine: {message}"),
            Self::Unsupported(message) => write!(f, "engine does not support this: {message}"),
            Self::Overloaded(message) => write!(f, "overloaded: {message}"),
            Self::NoWorker(message) => write!(f, "no worker: {message}"),
            Self::Draining => f.write_str("shutting down"),
            Self::Connect(worker, message) => write!(f, "worker {worker} not reached: {message}"),
            Self::Lost(worker, message) => write!(f, "worker {worker} lost: {message}"),
            Self::Truncated => f.write_str("stream ended before a finish reason"),
            Self::Stalled(worker) => write!(f, "worker {worker} made no progress within the stall timeout"),
            Self::Deadline(worker) => write!(f, "worker {worker} passed the deadline"),
            Self::Engine(worker, message) => write!(f, "worker {worker} failed: {message}"),
            Self::Protocol(message) => write!(f, "engine broke the wire contract: {message}"),
        }
    }
}

impl std::error::Error for EngineError {}
