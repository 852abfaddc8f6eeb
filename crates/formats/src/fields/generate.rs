//! `POST /inference/v1/generate`.

use super::sampling::COMMON;
use super::{Known, executed, ignored, refused};

const MEDIA: &str = "media features are not supported yet";

/// The body.
pub(crate) const BODY: Known = &[&[
    executed("model"),
    executed("token_ids"),
    executed("sampling_params"),
    executed("stream"),
    executed("stream_options"),
    executed("request_id"),
    executed("return_token_ids"),
    executed("cache_salt"),
    executed("priority"),
    executed("kv_transfer_params"),
    executed("ec_transfer_params"),
    executed("reasoning_ended"),
    executed("reasoning_parser_kwargs"),
    refused("features", &["{}"], MEDIA),
    refused("content_parts", &["[]"], MEDIA),
    refused("output_mode", &["\"tokens\""], "only `tokens` is possible; /v1/completions returns text"),
    ignored("token_offsets"),
]];

/// `sampling_params`.
pub(crate) const SAMPLING: Known = &[
    COMMON,
    &[
        executed("cache_salt"),
        ignored("detokenize"),
        ignored("spaces_between_special_tokens"),
        ignored("output_kind"),
        ignored("flat_logprobs"),
        ignored("skip_clone"),
        ignored("output_text_buffer_length"),
    ],
];

/// `reasoning_parser_kwargs`.
pub(crate) const REASONING: Known = &[&[executed("chat_template_kwargs")]];

/// Every object with known fields.
#[cfg(test)]
pub(crate) const ALL: super::Listing = &[
    ("", BODY),
    ("stream_options", super::STREAM_OPTIONS),
    ("reasoning_parser_kwargs", REASONING),
    ("sampling_params", SAMPLING),
    ("sampling_params.structured_outputs", super::STRUCTURED),
];
