//! What may go wrong with a request: at its engine, or before it gets there.

use serde_json::{Value, json};

use crate::harness::GENERATE;

/// One thing that goes wrong.
pub(super) struct Failure {
    /// In the id of the requests it is for.
    pub(super) name: &'static str,
    what: What,
}

enum What {
    Nothing,
    /// The engine's call ends with this gRPC status after so many tokens.
    Status(&'static str, u32),
    /// The engine's frame is wrong after so many tokens.
    Frame(&'static str, u32),
    /// The engine sends nothing after so many tokens.
    Stall(u32),
    /// The engine aborts the request after so many tokens.
    Abort(u32),
    /// The log-prob of the second token is that number.
    Logprob(&'static str),
    /// A field has this value, by its name on the generate route.
    Field(&'static str, &'static str),
    /// A token that no vocabulary has is in the prompt.
    Vocabulary,
    /// The prompt is longer than the context.
    Context,
}

pub(super) const FAILURES: &[Failure] = &[
    Failure { name: "none", what: What::Nothing },
    Failure { name: "refused-at-once", what: What::Status("INVALID_ARGUMENT", 0) },
    Failure { name: "unknown-at-once", what: What::Status("NOT_FOUND", 0) },
    Failure { name: "busy-at-once", what: What::Status("RESOURCE_EXHAUSTED", 0) },
    Failure { name: "late-at-once", what: What::Status("DEADLINE_EXCEEDED", 0) },
    Failure { name: "large-at-once", what: What::Status("OUT_OF_RANGE", 0) },
    Failure { name: "unbuilt-at-once", what: What::Status("UNIMPLEMENTED", 0) },
    Failure { name: "fails-at-once", what: What::Status("INTERNAL", 0) },
    Failure { name: "gone-at-once", what: What::Status("UNAVAILABLE", 0) },
    Failure { name: "refused-later", what: What::Status("INVALID_ARGUMENT", 2) },
    Failure { name: "busy-later", what: What::Status("RESOURCE_EXHAUSTED", 2) },
    Failure { name: "late-later", what: What::Status("DEADLINE_EXCEEDED", 2) },
    Failure { name: "fails-later", what: What::Status("INTERNAL", 2) },
    Failure { name: "gone-later", what: What::Status("UNAVAILABLE", 2) },
    Failure { name: "malformed-first", what: What::Frame("malformed", 0) },
    Failure { name: "malformed-later", what: What::Frame("malformed", 2) },
    Failure { name: "miscounted-first", what: What::Frame("token_count", 0) },
    Failure { name: "miscounted-later", what: What::Frame("token_count", 2) },
    Failure { name: "unfinished-first", what: What::Frame("missing_finish", 0) },
    Failure { name: "unfinished-later", what: What::Frame("missing_finish", 2) },
    Failure { name: "misplaced-first", what: What::Frame("index", 0) },
    Failure { name: "misplaced-later", what: What::Frame("index", 2) },
    Failure { name: "stalls-first", what: What::Stall(0) },
    Failure { name: "stalls-later", what: What::Stall(2) },
    Failure { name: "aborted-first", what: What::Abort(0) },
    Failure { name: "aborted-later", what: What::Abort(2) },
    Failure { name: "nan", what: What::Logprob("nan") },
    Failure { name: "minus-infinity", what: What::Logprob("-inf") },
    Failure { name: "bad-field", what: What::Field("top_p", "2") },
    Failure { name: "no-budget", what: What::Field("max_tokens", "0") },
    Failure { name: "out-of-vocabulary", what: What::Vocabulary },
    Failure { name: "out-of-context", what: What::Context },
];

impl Failure {
    /// Whether the stall timeout ends it.
    pub(super) fn stalls(&self) -> bool {
        matches!(self.what, What::Stall(_))
    }

    /// Whether the engine refuses a call at once, while its siblings may not have been accepted.
    pub(super) fn refuses(&self) -> bool {
        matches!(self.what, What::Status(_, 0) | What::Vocabulary)
    }

    /// What the engine is told to do wrong.
    pub(super) fn fault(&self) -> Option<Value> {
        match self.what {
            What::Status(code, at) => Some(
                json!({ "kind": "error", "code": code, "message": "words of the engine", "at_token": at }),
            ),
            What::Frame(frame, at) => Some(json!({ "kind": "bad_frame", "frame": frame, "at_token": at })),
            What::Stall(at) => Some(json!({ "kind": "stall", "at_token": at })),
            What::Abort(at) => Some(json!({ "kind": "abort", "at_token": at })),
            What::Logprob(value) => Some(json!({ "kind": "logprob", "value": value, "at_token": 1 })),
            What::Nothing | What::Field(..) | What::Vocabulary | What::Context => None,
        }
    }

    /// What the client does wrong.
    pub(super) fn spoil(&self, body: &mut Value, path: &str) {
        let prompt = if path == GENERATE { "token_ids" } else { "prompt" };
        match self.what {
            What::Field(name, value) => {
                let value: Value = serde_json::from_str(value).unwrap();
                let fields = if path == GENERATE { &mut body["sampling_params"] } else { body };
                fields[name] = value;
            }
            What::Vocabulary => spoil_last(&mut body[prompt], json!([1, 4_000_000_000_u32])),
            What::Context => spoil_last(&mut body[prompt], json!(vec![1; 200])),
            What::Nothing
            | What::Status(..)
            | What::Frame(..)
            | What::Stall(_)
            | What::Abort(_)
            | What::Logprob(_) => {}
        }
    }
}

/// Puts another prompt in the place of the last.
fn spoil_last(prompts: &mut Value, prompt: Value) {
    let several = prompts.as_array_mut().unwrap();
    match several.last_mut() {
        Some(last) if last.is_array() => *last = prompt,
        _ => *prompts = prompt,
    }
}
