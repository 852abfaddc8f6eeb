use tito_types::{Finish, VersionSpan};

use crate::ending::{self, Form, HandOff};
use crate::{Segments, json};

/// What the end of a choice leaves for the end of the reply.
#[derive(Debug, Default)]
pub(super) struct Rest {
    hand_off: HandOff,
    /// The weights that made the last token, where the engine says so.
    version: Option<String>,
}

impl Rest {
    /// Members of the reply itself. An unknown version is left out even of whole replies: clients test for the key.
    pub(super) fn write(self, out: &mut Segments, form: Form) {
        self.hand_off.write(out, form);
        ending::member(out.tail(), Form::Chunk, ",\"weight_version\":", self.version.as_ref(), json::value);
    }
}

/// Everything of a choice after its tokens and log-probs, up to its closing brace.
pub(super) fn choice(out: &mut Segments, form: Form, finish: Finish, rest: &mut Rest) {
    let Finish { reason, stop, mut extras, output_tokens: _, cached_tokens: _ } = finish;
    rest.hand_off.take(&mut extras);
    if rest.version.is_none() {
        rest.version = extras.weight_versions.last().map(|span| span.version.clone());
    }
    ending::reasons(out.tail(), form, reason, stop.as_ref());
    ending::member(out.tail(), form, ",\"sampling_mask\":", extras.sampling_mask.as_ref(), json::value);
    ending::opaque(out, form, ",\"routed_experts\":", extras.routed_experts);
    let spans = (!extras.weight_versions.is_empty()).then_some(extras.weight_versions.as_slice());
    ending::member(out.tail(), form, ",\"weight_versions\":", spans, versions);
    out.tail().push(b'}');
}

fn versions(out: &mut Vec<u8>, spans: &[VersionSpan]) {
    for (at, VersionSpan { version, start, end }) in spans.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",{\"version\":" } else { b"[{\"version\":" });
        json::value(out, version);
        out.extend_from_slice(b",\"start\":");
        json::value(out, start);
        out.extend_from_slice(b",\"end\":");
        json::value(out, end);
        out.push(b'}');
    }
    out.push(b']');
}
