//! Where a recording and the adapter differ on purpose, and why. An exception that nothing needs fails the test.

use crate::fixture::Fixture;

/// One reason for a difference.
pub(crate) struct Exception {
    /// What sets the recording apart: a field that the waist has no place for, or a name of its own.
    pub(crate) what: &'static str,
    /// What may differ for it.
    pub(crate) parts: &'static [&'static str],
    pub(crate) reason: &'static str,
}

const fn exception(what: &'static str, parts: &'static [&'static str], reason: &'static str) -> Exception {
    Exception { what, parts, reason }
}

/// Differences between the recorded reply and the deltas.
pub(crate) const OF_REPLIES: &[Exception] = &[
    exception(
        "output_token_ids",
        &["number of deltas", "contract"],
        "the recorded client did not ask for ids; the adapter always does and misses them",
    ),
    exception(
        "the middle of a stream",
        &["number of deltas", "contract"],
        "the recording leaves out the middle of the stream, and the final count finds out",
    ),
];

/// Differences between the recorded request and the one that the adapter sends.
pub(crate) const OF_REQUESTS: &[Exception] = &[
    exception("bytes", &["prompt", "temperature", "stopping"], "the recording keeps no bytes of the request"),
    exception("prompt.text", &["prompt"], "the waist carries token ids: text is tokenized above it"),
    exception("prompt.empty", &["prompt"], "the waist's prompt is never empty: formats refuse it"),
    exception(
        "truncate_prompt_tokens",
        &["truncate_prompt_tokens"],
        "the waist's prompt is what the engine sees",
    ),
    exception("media", &["media"], "media have no place in the waist yet"),
    exception("lora_name", &["lora_name"], "adapters have no place in the waist yet"),
    exception("kv_hints", &["kv_hints"], "no format has hints to pass on"),
    exception(
        "sampling.num_sequences",
        &["sampling"],
        "several continuations are fanned out above the adapter",
    ),
    exception("request_id", &["request_id"], "ids are 1 to 128 visible ASCII characters at the door"),
    exception(
        "metadata.rank",
        &["metadata"],
        "a rank is a number in the waist: formats refuse other spellings",
    ),
    exception("metadata", &["metadata"], "the adapter sends no metadata but one rank"),
];

/// What sets a recorded reply apart.
pub(crate) fn of_reply(fixture: &Fixture) -> Option<&'static str> {
    let without_ids = fixture.messages.iter().any(|message| {
        let outputs = &message["outputs"];
        outputs["num_tokens"].as_u64().unwrap_or_default() > 0 && outputs["token_ids"].is_null()
    });
    let cut = fixture.name == "grpc-generate/stream-aborted";
    without_ids.then_some("output_token_ids").or(cut.then_some("the middle of a stream"))
}
