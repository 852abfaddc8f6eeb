use std::fmt;

/// Why a body was not bound. The frontend chooses the status; nothing was sent to any engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of mistake.
    pub kind: RefusalKind,
    /// JSON path of the field at fault, where there is one: `sampling_params.top_p`, `token_ids[3]`.
    pub param: Option<String>,
    /// For the client.
    pub message: String,
}

/// Kinds of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The body is not JSON, or not an object.
    BadJson,
    /// A field has the wrong type or value, or is missing.
    Invalid,
    /// The prompt does not fit the model's context.
    ContextLength,
    /// The field is known to vLLM and cannot be done on this path.
    NotExpressible,
    /// A payload was left out, and is not remembered: it must be sent.
    MediaNotCached,
    /// No engine serves that model.
    UnknownModel,
    /// The model is known, but no engine can take a request now.
    ModelUnavailable,
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, param: Some(param.into()), message: message.into() }
    }

    /// A field with the wrong type or value, or a missing one.
    pub(crate) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Invalid, param, message)
    }

    /// A body that is no JSON object at all.
    pub(crate) fn bad_json(message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::BadJson, param: None, message: message.into() }
    }
}

/// How a message begins that says something about its field without naming it.
const PREDICATES: [&str; 5] = ["must ", "is ", "cannot ", "needs ", "names "];

/// The message as a sentence that stands alone: many clients show nothing else of an error.
pub fn sentence(param: Option<&str>, message: &str) -> String {
    let predicate = PREDICATES.iter().any(|start| message.starts_with(start));
    match param {
        Some(param) if predicate => format!("{param} {message}"),
        _ => message.to_owned(),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.param {
            Some(param) => write!(f, "{param}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Refusal {}

/// The one error envelope: `{"error":{"message","type","param","code"}}`.
pub fn error_body(message: &str, kind: &str, param: Option<&str>, code: &str) -> Vec<u8> {
    serde_json::json!({ "error": error_value(message, kind, param, code) }).to_string().into_bytes()
}

/// What the envelope holds.
pub(crate) fn error_value(message: &str, kind: &str, param: Option<&str>, code: &str) -> serde_json::Value {
    serde_json::json!({ "message": message, "type": kind, "param": param, "code": code })
}

#[cfg(test)]
mod tests;
