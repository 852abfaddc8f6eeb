//! What we say of each recorded request that we refuse, word for word, and how that relates to what vLLM's server said.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Recording, and our code, parameter and message.
const ERRORS: &[(&str, &str, Option<&str>, &str)] = &[
    (
        "generate-bad-content-type",
        "unsupported_media_type",
        None,
        "the body must be JSON: Content-Type: application/json",
    ),
    (
        "generate-bad-empty-ids",
        "invalid_value",
        Some("token_ids"),
        "token_ids must hold at least one token id",
    ),
    (
        "generate-bad-features",
        "media_not_cached",
        Some("features.kwargs_data.image[0]"),
        "features.kwargs_data.image[0] is not remembered here under its mm_hashes entry; send the request again with the data",
    ),
    (
        "generate-bad-json",
        "bad_json",
        None,
        "the body cannot be read as JSON: key must be a string at line 1 column 2",
    ),
    (
        "generate-bad-max-tokens",
        "invalid_value",
        Some("sampling_params.max_tokens"),
        "sampling_params.max_tokens must be a whole number from 1 to 4294967295, got 0",
    ),
    (
        "generate-bad-min-over-max",
        "invalid_value",
        Some("sampling_params.min_tokens"),
        "sampling_params.min_tokens must be at most max_tokens, 6; got 9",
    ),
    ("generate-bad-model", "model_not_found", Some("model"), "the model `nope` does not exist"),
    (
        "generate-bad-negative-id",
        "invalid_value",
        Some("token_ids[0]"),
        "token_ids[0] must be a token id: a whole number from 0 to 4294967295, got -1",
    ),
    ("generate-bad-no-ids", "invalid_value", Some("token_ids"), "token_ids is required"),
    ("generate-bad-no-params", "invalid_value", Some("sampling_params"), "sampling_params is required"),
    (
        "generate-bad-out-of-vocab",
        "engine_refused",
        None,
        "id 1024 in the prompt is outside the vocabulary of 1024",
    ),
    ("generate-bad-string-ids", "invalid_value", Some("token_ids"), "token_ids must be a list, got a string"),
    (
        "generate-bad-temperature-text",
        "invalid_value",
        Some("sampling_params.temperature"),
        "sampling_params.temperature must be a number from 0 to 2, got a string",
    ),
    (
        "generate-bad-temperature",
        "invalid_value",
        Some("sampling_params.temperature"),
        "sampling_params.temperature must be a number from 0 to 2, got 3.0",
    ),
    (
        "generate-bad-too-long",
        "context_length_exceeded",
        Some("token_ids"),
        "this model's maximum context length is 2048 tokens; the prompt has 2100",
    ),
    (
        "generate-bad-top-p",
        "invalid_value",
        Some("sampling_params.top_p"),
        "sampling_params.top_p must be a number above 0 and at most 1, got 0",
    ),
    (
        "generate-cache-salt-bad",
        "invalid_value",
        Some("cache_salt"),
        "cache_salt must be 1 to 128 characters, none of them @, /, \\ or NUL",
    ),
    (
        "generate-cache-salt-empty",
        "invalid_value",
        Some("cache_salt"),
        "cache_salt must be 1 to 128 characters, none of them @, /, \\ or NUL",
    ),
    ("generate-dp-rank-5", "invalid_value", Some("x-data-parallel-rank"), "rank 5 does not exist; valid: 0"),
    (
        "generate-dp-rank-text",
        "invalid_header",
        Some("x-data-parallel-rank"),
        "header x-data-parallel-rank must be a whole number from 0 to 4294967295",
    ),
    ("generate-get", "method_not_allowed", None, "the route does not take this method; see the Allow header"),
    ("generate-logprobs-21", "engine_refused", None, "21 candidates, at most 20 are allowed"),
    (
        "generate-output-bad-mode",
        "unsupported_parameter",
        Some("output_mode"),
        "output_mode is not supported: only `tokens` is possible; /v1/completions returns text",
    ),
    (
        "generate-output-text-stream",
        "unsupported_parameter",
        Some("output_mode"),
        "output_mode is not supported: only `tokens` is possible; /v1/completions returns text",
    ),
    (
        "generate-output-text",
        "unsupported_parameter",
        Some("output_mode"),
        "output_mode is not supported: only `tokens` is possible; /v1/completions returns text",
    ),
    (
        "generate-prompt-logprob-token-ids",
        "unsupported_parameter",
        Some("sampling_params.prompt_logprob_token_ids"),
        "sampling_params.prompt_logprob_token_ids is not supported: chosen tokens cannot be scored over the prompt; use prompt_logprobs",
    ),
    (
        "generate-prompt-logprobs-stream",
        "invalid_value",
        Some("sampling_params.prompt_logprobs"),
        "sampling_params.prompt_logprobs is not possible with stream = true",
    ),
    (
        "generate-stop-string-no-detokenize",
        "invalid_value",
        Some("sampling_params.detokenize"),
        "sampling_params.detokenize must be true with stop strings: they are found in text",
    ),
    (
        "generate-stream-options-without-stream",
        "invalid_value",
        Some("stream_options"),
        "stream_options is only possible with stream = true",
    ),
    ("not-found", "route_not_found", None, "no such route"),
];

/// Which of our codes stand for one of the recorded server's, whose codes say less.
const CODES: &[(&str, &[&str])] = &[
    ("invalid_request_error", &["invalid_value", "engine_refused", "context_length_exceeded"]),
    ("json_parse_error", &["bad_json", "invalid_value"]),
    ("model_not_found", &["model_not_found"]),
];

/// In what ways one of our errors contradicts the recorded one: another kind of error, another parameter, or a code that
/// does not stand for theirs. Ours may name a parameter where theirs names none, and may lead further into it. Theirs is
/// null where the recorded server sent no body.
pub(super) fn differences(theirs: &Value, ours: &Value) -> Vec<String> {
    let differs = |what: &str| format!("{what} {} became {}", theirs[what], ours[what]);
    let mut differences = Vec::new();
    if theirs.is_null() {
        return differences;
    }
    if theirs["type"] != ours["type"] {
        differences.push(differs("type"));
    }
    let same_param = theirs["param"].as_str().is_none_or(|theirs| {
        let rest = ours["param"].as_str().and_then(|ours| ours.strip_prefix(theirs));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    });
    if !same_param {
        differences.push(differs("param"));
    }
    let known = CODES.iter().find(|(code, _)| theirs["code"] == *code);
    if !known.is_some_and(|(_, codes)| codes.iter().any(|code| ours["code"] == *code)) {
        differences.push(differs("code"));
    }
    differences
}

/// Holds all our errors, by recording, against the list.
pub(super) fn check(found: &BTreeMap<String, Value>) {
    let row = |(name, code, param, message): &(&str, &str, Option<&str>, &str)| {
        let body = json!({ "code": code, "param": param, "message": message });
        ((*name).to_owned(), body)
    };
    let listed: BTreeMap<String, Value> = ERRORS.iter().map(row).collect();
    assert_eq!(listed.len(), ERRORS.len(), "a recording is listed once");
    let said = |(name, error): (&String, &Value)| {
        let body = json!({ "code": error["code"], "param": error["param"], "message": error["message"] });
        (name.clone(), body)
    };
    let found: BTreeMap<String, Value> = found.iter().map(said).collect();
    let wrong: Vec<String> = listed
        .keys()
        .chain(found.keys())
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .filter(|name| listed.get(*name) != found.get(*name))
        .map(|name| format!("{name}: {:?} instead of {:?}", found.get(name), listed.get(name)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
