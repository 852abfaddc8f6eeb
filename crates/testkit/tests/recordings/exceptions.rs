//! Where a recording and the adapter differ on purpose, and why. An exception that nothing needs fails the test.

use std::collections::BTreeSet;

use crate::fixture::Fixture;

/// One reason for a difference.
pub(crate) struct Exception {
    /// A field that the waist has no place for, or a name of its own.
    pub(crate) what: &'static str,
    pub(crate) reason: &'static str,
    /// What may differ for it.
    parts: &'static [&'static str],
    applies: Applies,
}

enum Applies {
    /// The message sets a field that cannot be expressed.
    Lost,
    /// The recording is this one.
    Named(&'static str),
    /// The recording has this property.
    When(fn(&Fixture) -> bool),
}

pub(crate) struct Exceptions(&'static [Exception]);

const fn lost(what: &'static str, parts: &'static [&'static str], reason: &'static str) -> Exception {
    Exception { what, reason, parts, applies: Applies::Lost }
}

/// Differences between the recorded reply and the deltas.
pub(crate) static OF_REPLIES: Exceptions = Exceptions(&[
    Exception {
        what: "output_token_ids",
        reason: "the recorded client did not ask for ids; the adapter always does and misses them",
        parts: &["number of deltas", "contract"],
        applies: Applies::When(has_tokens_without_ids),
    },
    Exception {
        what: "the middle of a stream",
        reason: "the recording leaves out the middle of the stream, and the final count finds out",
        parts: &["number of deltas", "contract"],
        applies: Applies::Named("grpc-generate/stream-aborted"),
    },
]);

/// Differences between the recorded request and the one that the adapter sends.
pub(crate) static OF_REQUESTS: Exceptions = Exceptions(&[
    lost("bytes", &["prompt", "temperature", "stopping"], "the recording keeps no bytes of the request"),
    lost("prompt.text", &["prompt"], "the waist carries token ids: text is tokenized above it"),
    lost("prompt.empty", &["prompt"], "the waist's prompt is never empty: formats refuse it"),
    lost("truncate_prompt_tokens", &["truncate_prompt_tokens"], "the waist's prompt is what the engine sees"),
    lost("media", &["media"], "media have no place in the waist yet"),
    lost("lora_name", &["lora_name"], "adapters have no place in the waist yet"),
    lost("kv_hints", &["kv_hints"], "no format has hints to pass on"),
    lost("sampling.num_sequences", &["sampling"], "several continuations are fanned out above the adapter"),
    lost("request_id", &["request_id"], "ids are 1 to 128 visible ASCII characters at the door"),
    lost("metadata.rank", &["metadata"], "a rank is a number in the waist: formats refuse other spellings"),
    lost("metadata", &["metadata"], "the adapter sends no metadata but one rank"),
]);

impl Exception {
    pub(crate) fn covers(&self, part: &str) -> bool {
        self.parts.contains(&part)
    }
}

impl Exceptions {
    pub(crate) fn of(&self, fixture: &Fixture, lost: &[&'static str]) -> Option<&Exception> {
        self.0.iter().find(|exception| match exception.applies {
            Applies::Lost => lost.contains(&exception.what),
            Applies::Named(name) => fixture.name == name,
            Applies::When(applies) => applies(fixture),
        })
    }

    pub(crate) fn unused<'a>(
        &'a self,
        used: &'a BTreeSet<&'static str>,
    ) -> impl Iterator<Item = &'static str> + 'a {
        self.0.iter().map(|exception| exception.what).filter(|what| !used.contains(what))
    }
}

fn has_tokens_without_ids(fixture: &Fixture) -> bool {
    fixture.messages.iter().any(|message| {
        let outputs = &message["outputs"];
        outputs["num_tokens"].as_u64().unwrap_or_default() > 0 && outputs["token_ids"].is_null()
    })
}
