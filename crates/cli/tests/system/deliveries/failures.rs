//! What may go wrong with a request: at its engine, or before it gets there.

use serde_json::{Value, json};

use crate::harness::GENERATE;

/// One thing that goes wrong.
pub(super) struct Failure {
    /// In the id of the requests it is for.
    pub(super) name: &'static str,
    what: What,
    /// How a whole reply says that it ended: its status, then the code of the error or why the first choice finished. There
    /// are two ways where it depends on how the engine was called, or on whether log-probs were asked for.
    end: &'static str,
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
    Failure { name: "none", what: What::Nothing, end: "200 length" },
    Failure { name: "refused-at-once", what: What::Status("INVALID_ARGUMENT", 0), end: "400 engine_refused" },
    Failure { name: "unknown-at-once", what: What::Status("NOT_FOUND", 0), end: "404 model_not_found" },
    Failure { name: "busy-at-once", what: What::Status("RESOURCE_EXHAUSTED", 0), end: "429 overloaded" },
    Failure {
        name: "late-at-once",
        what: What::Status("DEADLINE_EXCEEDED", 0),
        end: "504 deadline_exceeded",
    },
    Failure { name: "large-at-once", what: What::Status("OUT_OF_RANGE", 0), end: "413 message_too_large" },
    Failure { name: "unbuilt-at-once", what: What::Status("UNIMPLEMENTED", 0), end: "501 unsupported" },
    Failure { name: "fails-at-once", what: What::Status("INTERNAL", 0), end: "502 worker_failed" },
    Failure { name: "gone-at-once", what: What::Status("UNAVAILABLE", 0), end: "503 worker_unreachable" },
    Failure { name: "refused-later", what: What::Status("INVALID_ARGUMENT", 2), end: "400 engine_refused" },
    Failure { name: "busy-later", what: What::Status("RESOURCE_EXHAUSTED", 2), end: "429 overloaded" },
    Failure { name: "late-later", what: What::Status("DEADLINE_EXCEEDED", 2), end: "504 deadline_exceeded" },
    Failure { name: "fails-later", what: What::Status("INTERNAL", 2), end: "502 worker_failed" },
    Failure {
        name: "gone-later",
        what: What::Status("UNAVAILABLE", 2),
        end: "503 worker_unreachable|502 worker_lost",
    },
    Failure { name: "malformed-first", what: What::Frame("malformed", 0), end: "502 worker_failed" },
    Failure { name: "malformed-later", what: What::Frame("malformed", 2), end: "502 worker_failed" },
    Failure { name: "miscounted-first", what: What::Frame("token_count", 0), end: "502 worker_protocol" },
    Failure { name: "miscounted-later", what: What::Frame("token_count", 2), end: "502 worker_protocol" },
    Failure { name: "unfinished-first", what: What::Frame("missing_finish", 0), end: "502 worker_lost" },
    Failure { name: "unfinished-later", what: What::Frame("missing_finish", 2), end: "502 worker_lost" },
    Failure { name: "misplaced-first", what: What::Frame("index", 0), end: "502 worker_protocol" },
    Failure { name: "misplaced-later", what: What::Frame("index", 2), end: "502 worker_protocol" },
    Failure { name: "stalls-first", what: What::Stall(0), end: "504 worker_stalled" },
    Failure { name: "stalls-later", what: What::Stall(2), end: "504 worker_stalled" },
    Failure { name: "aborted-first", what: What::Abort(0), end: "200 abort" },
    Failure { name: "aborted-later", what: What::Abort(2), end: "200 abort" },
    Failure { name: "nan", what: What::Logprob("nan"), end: "200 length|502 worker_protocol" },
    Failure { name: "minus-infinity", what: What::Logprob("-inf"), end: "200 length" },
    Failure { name: "bad-field", what: What::Field("top_p", "2"), end: "400 invalid_value" },
    Failure { name: "no-budget", what: What::Field("max_tokens", "0"), end: "400 invalid_value" },
    Failure { name: "out-of-vocabulary", what: What::Vocabulary, end: "400 engine_refused" },
    Failure { name: "out-of-context", what: What::Context, end: "400 context_length_exceeded" },
];

/// Codes of failures that the client caused: it is told what the engine said.
const CLIENTS_FAULT: [&str; 3] = ["engine_refused", "model_not_found", "message_too_large"];
/// What the engine says of its failures.
const WORDS: &str = "words of the engine";

impl Failure {
    /// What is wrong with a whole reply that says that it ended like this.
    pub(super) fn wrong_end(&self, status: u16, end: &str, message: &str) -> Option<String> {
        let end_is = format!("{status} {end}");
        let told = self.end.split('|').any(|known| known == end_is);
        let quoted = matches!(self.what, What::Status(..)) && CLIENTS_FAULT.contains(&end);
        let right = told && quoted == message.contains(WORDS);
        (!right).then(|| format!("whole reply: {end_is}, {message:?}, expected {}", self.end))
    }

    /// Tokens that a stream of one choice delivers before the engine's status ends it.
    pub(super) fn delivered(&self) -> Option<u32> {
        if let What::Status(_, at) = self.what { Some(at) } else { None }
    }

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
            What::Status(code, at) => {
                Some(json!({ "kind": "error", "code": code, "message": WORDS, "at_token": at }))
            }
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
