//! `POST /inference/v1/generate`.

use super::sampling::COMMON;
use super::{Known, executed, ignored, refused};

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
    executed("features"),
    executed("content_parts"),
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

/// `features`. Nothing unknown may stand in it, nor in what it holds.
pub(crate) const FEATURES: Known = &[&[
    executed("mm_hashes"),
    executed("mm_placeholders"),
    executed("kwargs_data"),
    executed("mm_metadata"),
]];

/// What each map of `features` may name.
pub(crate) const MODALITIES: Known = &[&[executed("image"), executed("video"), executed("audio")]];

/// One entry of `features.mm_placeholders`.
pub(crate) const PLACEHOLDER: Known = &[&[executed("offset"), executed("length"), executed("is_embed")]];

const NESTED: &str = "a part is flat: {\"type\":\"image_url\",\"url\":\"…\"}";

/// One entry of `content_parts`. Nothing unknown may stand in it.
pub(crate) const PART: Known = &[&[
    executed("type"),
    executed("url"),
    executed("uuid"),
    refused("image_url", &[], NESTED),
    refused("video_url", &[], NESTED),
    refused("audio_url", &[], NESTED),
]];

/// Every object with known fields.
#[cfg(test)]
pub(crate) const ALL: super::Listing = &[
    ("", BODY),
    ("stream_options", super::STREAM_OPTIONS),
    ("reasoning_parser_kwargs", REASONING),
    ("features", FEATURES),
    ("features.mm_placeholders.*[]", PLACEHOLDER),
    ("content_parts[]", PART),
    ("sampling_params", SAMPLING),
    ("sampling_params.structured_outputs", super::STRUCTURED),
];
