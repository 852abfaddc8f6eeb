//! Server-sent events: `data:`, one JSON value without line breaks, an empty line.

use crate::Usage;
use crate::json;

/// What begins an event.
pub(crate) const DATA: &[u8] = b"data: ";
/// What ends an event.
pub(crate) const END: &[u8] = b"\n\n";
/// The last event of every stream.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";

/// The events that end a stream in which something failed: the error body, then `[DONE]`.
///
/// `body` is one JSON value, as [`error_body`](crate::error_body) makes them; line breaks in it become spaces.
pub fn error_event(body: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(DATA.len() + body.len() + END.len() + DONE.len());
    event.extend_from_slice(DATA);
    event.extend(body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    event.extend_from_slice(END);
    event.extend_from_slice(DONE);
    event
}

/// What follows the last delta: the usage event when it is `wanted`, under the members that begin every chunk, and
/// `[DONE]`.
pub(crate) fn close(out: &mut Vec<u8>, head: &[u8], counts: Usage, wanted: bool) {
    if wanted {
        out.extend_from_slice(DATA);
        out.extend_from_slice(head);
        out.extend_from_slice(b",\"choices\":[],\"usage\":");
        usage(out, counts, false);
        out.push(b'}');
        out.extend_from_slice(END);
    }
    out.extend_from_slice(DONE);
}

/// A usage object. Nulls are spelled in whole replies and left out of chunks.
pub(crate) fn usage(out: &mut Vec<u8>, usage: Usage, spell_nulls: bool) {
    let Usage { prompt_tokens, cached_tokens, completion_tokens } = usage;
    out.extend_from_slice(b"{\"prompt_tokens\":");
    json::value(out, &prompt_tokens);
    out.extend_from_slice(b",\"total_tokens\":");
    json::value(out, &(prompt_tokens + completion_tokens));
    out.extend_from_slice(b",\"completion_tokens\":");
    json::value(out, &completion_tokens);
    match cached_tokens {
        Some(cached) => {
            out.extend_from_slice(b",\"prompt_tokens_details\":{\"cached_tokens\":");
            json::value(out, &cached);
            out.push(b'}');
        }
        None if spell_nulls => out.extend_from_slice(b",\"prompt_tokens_details\":null"),
        None => {}
    }
    if spell_nulls {
        out.extend_from_slice(b",\"completion_tokens_details\":null");
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests;
