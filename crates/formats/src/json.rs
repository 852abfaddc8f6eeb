//! Writes JSON piece by piece into a buffer: replies are made of these, without a tree in between.

use serde::Serialize;
use tito_types::{EngineError, RawJson, TokenId};

/// What a log-prob of −∞ is written as, since JSON has no infinity.
const LOGPROB_FLOOR: &[u8] = b"-9999.0";

/// Any value that always serializes: numbers, strings, lists of numbers.
pub(crate) fn value(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("numbers and strings can be written to memory");
}

/// Opaque JSON made fit for an event: a line break between its tokens becomes a space, in place.
pub(crate) fn one_line(raw: RawJson) -> Vec<u8> {
    let mut bytes = raw.into_string().into_bytes();
    for byte in &mut bytes {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    bytes
}

/// A token that no tokenizer spelled: `"token_id:17"`.
pub(crate) fn token_name(out: &mut Vec<u8>, token: TokenId) {
    out.extend_from_slice(b"\"token_id:");
    value(out, &token);
    out.push(b'"');
}

/// A log-prob as the shortest decimal that reads back as the same 32-bit number.
pub(crate) fn logprob(out: &mut Vec<u8>, logprob: f32) -> Result<(), EngineError> {
    if logprob == f32::NEG_INFINITY {
        out.extend_from_slice(LOGPROB_FLOOR);
    } else if logprob.is_finite() {
        value(out, &logprob);
    } else {
        return Err(EngineError::Protocol(format!("a log-prob is {logprob}")));
    }
    Ok(())
}

/// A rank, or null where the engine gives none.
pub(crate) fn rank(out: &mut Vec<u8>, rank: u32) {
    if rank == 0 {
        out.extend_from_slice(b"null");
    } else {
        value(out, &rank);
    }
}

/// How deeply valid JSON nests: 0 for a number, 1 for a flat object.
pub(crate) fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests;
