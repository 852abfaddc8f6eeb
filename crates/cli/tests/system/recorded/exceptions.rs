//! Where we answer otherwise than vLLM's Rust server, and why.

use std::collections::BTreeSet;

/// Recording, how our answer differs, and the reason.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("generate-bad-content-type", &["status 400 became 415"], "a media type has a status of its own"),
    (
        "generate-bad-features",
        &["status 200 became 400"],
        "refused until it is built; the recorded server drops it without a word",
    ),
    (
        "generate-bad-model",
        &["type \"invalid_request_error\" became \"not_found_error\""],
        "the type goes with the status",
    ),
    ("generate-bad-top-k", &["status 400 became 200"], "-1 means no limit, as on vLLM's Python server"),
    (
        "generate-cache-salt-bad",
        &["status 200 became 400"],
        "a salt that vLLM's Python server refuses; the recorded one takes any",
    ),
    ("generate-cache-salt-empty", &["status 200 became 400"], "as above"),
    ("generate-dp-rank-text", &["status 200 became 400"], "a rank is honoured or refused, never dropped"),
    (
        "generate-logit-bias",
        &["status 400 became 200"],
        "JSON's keys are strings, and the recorded server wants numbers",
    ),
    ("generate-n-2", &["status 400 became 200"], "several continuations are possible here"),
    ("generate-n-2-stream", &["status 400 became 200"], "as above"),
    (
        "generate-output-bad-mode",
        &["status 200 became 400"],
        "there is only one mode, and the recorded server ignores the field",
    ),
    ("generate-output-text", &["status 200 became 400"], "as above"),
    ("generate-output-text-stream", &["status 200 became 400"], "as above"),
    (
        "generate-prompt-logprob-token-ids",
        &["status 200 became 400"],
        "not over gRPC; the recorded server drops it without a word",
    ),
    (
        "generate-stop-string-no-detokenize",
        &["status 200 became 400"],
        "stop strings are found in text; the recorded server never stops",
    ),
    (
        "generate-stop-string",
        &["finish reasons 0: length became 0: stop", "tokens 12 became 2"],
        "the recorded server ignores stop strings on this route",
    ),
    (
        "generate-stop-string-stream",
        &["finish reasons 0: length became 0: stop", "tokens 12 became 2"],
        "as above",
    ),
    (
        "generate-stop-token",
        &["finish reasons 0: stop became 0: length", "tokens 3 became 6"],
        "the simulated model never draws the recorded stop token",
    ),
];

/// How the answer to a recorded request is known to differ.
pub(super) fn of(name: &str) -> Vec<String> {
    let known = EXCEPTIONS.iter().find(|(exception, ..)| *exception == name);
    known
        .map(|(_, differences, _)| differences.iter().map(|text| (*text).to_owned()).collect())
        .unwrap_or_default()
}

/// All recordings that are exceptions.
pub(super) fn names() -> BTreeSet<&'static str> {
    EXCEPTIONS.iter().map(|(name, ..)| *name).collect()
}

#[test]
fn every_exception_has_a_difference_and_a_reason() {
    for (name, differences, reason) in EXCEPTIONS {
        assert!(!differences.is_empty() && !reason.is_empty(), "{name}");
    }
    assert_eq!(names().len(), EXCEPTIONS.len(), "a recording is listed once");
}
