/// A JSON value kept as the text it arrived in: key order, number spelling and all.
///
/// Whoever makes one vouches that the text is exactly one JSON value; it is relayed without being parsed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawJson(String);

impl RawJson {
    /// Wraps text that is known to be one JSON value.
    pub fn new(json: String) -> Self {
        Self(json)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, moved out: large opaque values are never copied on their way to the client.
    pub fn into_string(self) -> String {
        self.0
    }
}
