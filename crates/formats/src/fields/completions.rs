//! `POST /v1/completions`.

use super::sampling::COMMON;
use super::{Known, executed, ignored, refused};

const BEAM: &str = "beam search is not possible";

/// The body.
pub(crate) const BODY: Known = &[
    &[
        executed("model"),
        executed("prompt"),
        executed("stream"),
        executed("stream_options"),
        executed("request_id"),
        executed("session_id"),
        executed("return_token_ids"),
        executed("cache_salt"),
        executed("priority"),
        executed("kv_transfer_params"),
        executed("ec_transfer_params"),
        executed("response_format"),
        executed("best_of"),
    ],
    COMMON,
    &[
        refused("prompt_embeds", &["[]"], "prompt embeddings cannot be handed to engines; send token ids"),
        refused("suffix", &["\"\""], "text after the completion is not supported"),
        refused("echo", &["false"], "the prompt's text is not known where the prompt is token ids"),
        refused("use_beam_search", &["false"], BEAM),
        refused("length_penalty", &["1", "1.0"], BEAM),
        refused("truncate_prompt_tokens", &[], "cut the prompt before it is sent"),
        refused(
            "spaces_between_special_tokens",
            &["true"],
            "engines always put spaces between special tokens",
        ),
        ignored("truncation_side"),
        ignored("add_special_tokens"),
        ignored("return_tokens_as_token_ids"),
        ignored("return_token_offsets"),
        ignored("mm_payload"),
        ignored("return_mm_kwargs"),
        ignored("user"),
    ],
];

/// What a prompt of text is refused with.
pub(crate) const TEXT_PROMPT: &str = "text prompts are not served yet; send token ids";

/// `response_format`.
pub(crate) const RESPONSE_FORMAT: Known = &[&[
    executed("type"),
    executed("json_schema"),
    executed("structures"),
    executed("triggers"),
    refused("format", &[], "only structural tags made of structures and triggers are possible"),
]];

/// `response_format.json_schema`.
pub(crate) const JSON_SCHEMA: Known =
    &[&[executed("schema"), ignored("name"), ignored("description"), ignored("strict")]];

/// Every object with known fields.
#[cfg(test)]
pub(crate) const ALL: super::Listing = &[
    ("", BODY),
    ("stream_options", super::STREAM_OPTIONS),
    ("structured_outputs", super::STRUCTURED),
    ("response_format", RESPONSE_FORMAT),
    ("response_format.json_schema", JSON_SCHEMA),
];
