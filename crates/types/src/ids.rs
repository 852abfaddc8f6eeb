use std::fmt;
use std::sync::Arc;

/// Index into a model's vocabulary.
pub type TokenId = u32;

/// Longest accepted request id, in characters.
pub const REQUEST_ID_LEN_MAX: usize = 128;

/// The client's name for one request: 1–128 visible ASCII characters. Not unique; adapters add a suffix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(Arc<str>);

/// The text is empty, too long, or has characters outside visible ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidRequestId;

impl RequestId {
    /// Accepts 1–128 visible ASCII characters.
    pub fn parse(text: &str) -> Result<Self, InvalidRequestId> {
        let valid = (1..=REQUEST_ID_LEN_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        if valid { Ok(Self(text.into())) } else { Err(InvalidRequestId) }
    }

    /// The id as the client wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InvalidRequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be 1 to {REQUEST_ID_LEN_MAX} visible ASCII characters")
    }
}

impl std::error::Error for InvalidRequestId {}

/// Name of one worker in the fleet, stable for the life of the configuration: ties between workers break by it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(Arc<str>);

impl WorkerId {
    /// Any name; the configuration decides.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
