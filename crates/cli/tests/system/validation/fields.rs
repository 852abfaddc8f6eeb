//! Which executed fields there are, by what they take.

/// What a field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// true or false.
    Flag,
    /// Text; what is wrong besides its type is tried in `bodies`.
    Text,
    /// A whole number, and whether 0, −1 and a huge one are taken.
    Whole { zero: Take, minus_one: Take, huge: &'static str },
    /// A number, and whether 0, −1 and the largest one tried are taken.
    Number { zero: Take, minus_one: Take, huge: &'static str },
    /// A list of token ids; one id beyond the vocabulary is for the engine to refuse.
    Ids,
    /// The same, or a list of them.
    Prompts,
    /// A list of lists of token ids.
    IdLists,
    /// One string or a list of them.
    Strings,
    /// A list of strings.
    StringList,
    /// Token ids to numbers.
    Biases,
    /// Any object.
    Object,
    /// An object, or text that holds one.
    Schema,
    /// An object whose members are tried one by one.
    Holder,
    /// As many booleans as the two tokens of the item that `media::beside` describes, one of them true.
    Mask,
    /// A list of objects that must have members.
    Parts,
}

/// Who takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// Everybody.
    Yes,
    /// We do not.
    No,
    /// We do, the engine does not.
    NotTheEngine,
}

use Take::{No, NotTheEngine, Yes};

const fn whole(zero: Take, minus_one: Take, huge: &'static str) -> Kind {
    Kind::Whole { zero, minus_one, huge }
}

const fn number(zero: Take, minus_one: Take, huge: &'static str) -> Kind {
    Kind::Number { zero, minus_one, huge }
}

/// Just beyond 32 bits.
const U32: &str = "4294967296";
/// Just beyond 64 bits with a sign.
const I64: &str = "9223372036854775808";

/// Sampling fields, which both routes have.
pub(crate) const SAMPLING: &[(&str, Kind)] = &[
    ("n", whole(No, No, "5")),
    ("temperature", number(Yes, No, "2.0001")),
    ("top_p", number(No, No, "1.0001")),
    ("top_k", whole(Yes, Yes, U32)),
    ("min_p", number(Yes, No, "1.0001")),
    ("seed", whole(Yes, Yes, I64)),
    ("presence_penalty", number(Yes, Yes, "2.0001")),
    ("frequency_penalty", number(Yes, Yes, "2.0001")),
    ("repetition_penalty", number(No, No, "1e39")),
    ("logit_bias", Kind::Biases),
    ("allowed_token_ids", Kind::Ids),
    ("bad_words_token_ids", Kind::IdLists),
    ("watermarking", Kind::Flag),
    ("max_tokens", whole(No, No, U32)),
    ("min_tokens", whole(Yes, No, "4")),
    ("stop", Kind::Strings),
    ("stop_token_ids", Kind::Ids),
    ("include_stop_str_in_output", Kind::Flag),
    ("ignore_eos", Kind::Flag),
    ("skip_special_tokens", Kind::Flag),
    ("thinking_token_budget", whole(Yes, Yes, I64)),
    ("logprobs", whole(Yes, NotTheEngine, U32)),
    ("prompt_logprobs", whole(Yes, NotTheEngine, U32)),
    ("logprob_token_ids", Kind::Ids),
    ("skip_reading_prefix_cache", Kind::Flag),
    ("routed_experts_prompt_start", whole(Yes, No, "4")),
    ("structured_outputs", Kind::Holder),
    ("structured_outputs.json", Kind::Schema),
    ("structured_outputs.json_object", Kind::Flag),
    ("structured_outputs.regex", Kind::Text),
    ("structured_outputs.choice", Kind::StringList),
    ("structured_outputs.grammar", Kind::Text),
    ("structured_outputs.structural_tag", Kind::Schema),
];

/// Fields beside the prompt, which both routes have.
pub(crate) const ENVELOPE: &[(&str, Kind)] = &[
    ("model", Kind::Text),
    ("stream", Kind::Flag),
    ("stream_options", Kind::Holder),
    ("stream_options.include_usage", Kind::Flag),
    ("stream_options.continuous_usage_stats", Kind::Flag),
    ("request_id", Kind::Text),
    ("return_token_ids", Kind::Flag),
    ("cache_salt", Kind::Text),
    ("priority", whole(Yes, Yes, "2147483648")),
    ("kv_transfer_params", Kind::Object),
    ("ec_transfer_params", Kind::Object),
];

/// Fields of the generate route alone.
pub(crate) const GENERATE: &[(&str, Kind)] = &[
    ("token_ids", Kind::Ids),
    ("sampling_params", Kind::Holder),
    ("sampling_params.cache_salt", Kind::Text),
    ("reasoning_ended", Kind::Flag),
    ("reasoning_parser_kwargs", Kind::Holder),
    ("reasoning_parser_kwargs.chat_template_kwargs", Kind::Object),
    ("features", Kind::Holder),
    ("features.mm_hashes", Kind::Holder),
    ("features.mm_placeholders", Kind::Holder),
    ("features.mm_placeholders.*[].offset", whole(Yes, No, "3")),
    ("features.mm_placeholders.*[].length", whole(No, No, "3")),
    ("features.mm_placeholders.*[].is_embed", Kind::Mask),
    ("features.kwargs_data", Kind::Holder),
    ("features.mm_metadata", Kind::Holder),
    ("content_parts", Kind::Parts),
    ("content_parts[].type", Kind::Text),
    ("content_parts[].url", Kind::Text),
    ("content_parts[].uuid", Kind::Text),
];

/// Fields of the completions route alone. `response_format` is tried in `bodies`.
pub(crate) const COMPLETIONS: &[(&str, Kind)] =
    &[("prompt", Kind::Prompts), ("best_of", whole(No, No, U32)), ("session_id", Kind::Text)];
