use super::{Field, Known, executed, refused};

/// How tokens are drawn and when generation ends: inside `sampling_params`, or beside the prompt of a completion.
pub(super) const COMMON: &[Field] = &[
    executed("n"),
    executed("temperature"),
    executed("top_p"),
    executed("top_k"),
    executed("min_p"),
    executed("seed"),
    executed("presence_penalty"),
    executed("frequency_penalty"),
    executed("repetition_penalty"),
    executed("max_tokens"),
    executed("min_tokens"),
    executed("stop"),
    executed("stop_token_ids"),
    executed("include_stop_str_in_output"),
    executed("ignore_eos"),
    executed("skip_special_tokens"),
    executed("logprobs"),
    executed("logprob_token_ids"),
    executed("prompt_logprobs"),
    executed("logit_bias"),
    executed("allowed_token_ids"),
    executed("bad_words_token_ids"),
    executed("structured_outputs"),
    executed("thinking_token_budget"),
    executed("watermarking"),
    executed("skip_reading_prefix_cache"),
    executed("routed_experts_prompt_start"),
    refused("bad_words", &["[]"], "words would have to be tokenized; send bad_words_token_ids"),
    refused(
        "prompt_logprob_token_ids",
        &[],
        "chosen tokens cannot be scored over the prompt; use prompt_logprobs",
    ),
    refused("prompt_logprob_start", &["0"], "prompt log-probs always start at the first token"),
    refused("repetition_detection", &[], "engines cannot be asked to detect repetition"),
    refused("stream_interval", &["1"], "engines decide how many tokens share a chunk"),
    refused("trace_decode_token_ids", &[], "output cannot be forced"),
    refused("extra_args", &["{}"], "extra arguments cannot be handed to engines"),
    refused("vllm_xargs", &["{}"], "extra arguments cannot be handed to engines"),
];

const BACKEND: &str = "the grammar backend and its options are set where the engine starts";

/// `structured_outputs`.
pub(crate) const STRUCTURED: Known = &[&[
    executed("json"),
    executed("regex"),
    executed("choice"),
    executed("grammar"),
    executed("json_object"),
    executed("structural_tag"),
    refused("disable_any_whitespace", &["false"], BACKEND),
    refused("disable_additional_properties", &["false"], BACKEND),
    refused("whitespace_pattern", &[], BACKEND),
    refused("backend", &[], BACKEND),
    refused("_backend", &[], BACKEND),
]];
