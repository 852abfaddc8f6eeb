//! Journal entries as JSON, the message with its original field names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde_json::{Value, json};

use crate::journal::{JournalEntry, RequestState};

mod message;

/// One entry.
pub(super) fn entry(entry: &JournalEntry) -> Value {
    let state = entry.state();
    let cause = match state {
        RequestState::Aborted(cause) => Some(cause.name()),
        RequestState::Queued | RequestState::Running | RequestState::Finished => None,
    };
    json!({
        "request_id": entry.request_id,
        "engine_request_id": entry.engine_request_id,
        "rank": entry.rank,
        "state": state.name(),
        "cause": cause,
        "prompt_tokens": entry.prompt_tokens,
        "cached_tokens": entry.cached_tokens(),
        "output_tokens": entry.output_tokens(),
        "request": message::request(&entry.request),
        "wire_b64": STANDARD.encode(entry.request.encode_to_vec()),
    })
}
