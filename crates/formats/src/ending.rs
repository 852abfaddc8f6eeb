//! How the end of a choice is spelled, in whole replies and in the last chunk of a stream.

use tito_types::{Extras, FinishReason, RawJson, StopCause};

use crate::{Segments, json};

/// Whether a value goes into a whole reply, where absent is null, or into a chunk, where absent is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Chunk,
}

/// Appends `key` (`,"name":`) and what `write` makes of a value; of an absent one, null or nothing.
pub(crate) fn member<T>(
    out: &mut Vec<u8>,
    form: Form,
    key: &str,
    value: Option<T>,
    write: impl FnOnce(&mut Vec<u8>, T),
) {
    match (value, form) {
        (Some(value), _) => {
            out.extend_from_slice(key.as_bytes());
            write(out, value);
        }
        (None, Form::Whole) => {
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"null");
        }
        (None, Form::Chunk) => {}
    }
}

/// The same for a value that nobody looks into and that may be large: it is moved, not copied.
pub(crate) fn opaque(out: &mut Segments, form: Form, key: &str, value: Option<RawJson>) {
    match value {
        Some(value) => {
            out.tail().extend_from_slice(key.as_bytes());
            out.append(match form {
                Form::Whole => value.into_string().into_bytes(),
                Form::Chunk => json::one_line(value),
            });
        }
        None => member(out.tail(), form, key, None, |_, ()| ()),
    }
}

/// `,"finish_reason":…,"stop_reason":…`. The model's own end of sequence is not a stop reason.
pub(crate) fn reasons(out: &mut Vec<u8>, form: Form, reason: FinishReason, stop: Option<&StopCause>) {
    out.extend_from_slice(match reason {
        FinishReason::Stop => b",\"finish_reason\":\"stop\"",
        FinishReason::Length => b",\"finish_reason\":\"length\"",
        FinishReason::Abort => b",\"finish_reason\":\"abort\"",
    });
    let stop = stop.filter(|cause| !matches!(cause, StopCause::Eos(_)));
    member(out, form, ",\"stop_reason\":", stop, |out, cause| match cause {
        StopCause::Eos(token) | StopCause::Token(token) => json::value(out, token),
        StopCause::Text(text) => json::value(out, text),
    });
}

/// Transfer parameters of a reply: they stand beside the choices.
#[derive(Debug, Default)]
pub(crate) struct HandOff {
    kv: Option<RawJson>,
    ec: Option<RawJson>,
}

impl HandOff {
    /// Takes the parameters out of a choice's extras, unless an earlier choice had some.
    pub(crate) fn take(&mut self, extras: &mut Extras) {
        self.kv = self.kv.take().or(extras.kv_transfer_params.take());
        self.ec = self.ec.take().or(extras.ec_transfer_params.take());
    }

    pub(crate) fn write(self, out: &mut Segments, form: Form) {
        opaque(out, form, ",\"kv_transfer_params\":", self.kv);
        opaque(out, form, ",\"ec_transfer_params\":", self.ec);
    }
}
