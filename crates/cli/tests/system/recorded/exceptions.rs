//! Where we answer otherwise than vLLM's Rust server, and why.

use std::collections::BTreeSet;

const REFUSED: &[&str] = &["status 200 became 400"];
const SERVED: &[&str] = &["status 400 became 200"];
const STOPPED: &[&str] = &["finish reasons 0: length became 0: stop", "tokens 12 became 2"];

/// Recording, how our answer differs, and the reason.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("generate-bad-content-type", &["status 400 became 415"], "a media type has a status of its own"),
    (
        "generate-bad-features",
        REFUSED,
        "refused until it is built; the recorded server drops it without a word",
    ),
    (
        "generate-bad-model",
        &["type \"invalid_request_error\" became \"not_found_error\""],
        "the type goes with the status",
    ),
    ("generate-bad-top-k", SERVED, "-1 means no limit, as on vLLM's Python server"),
    (
        "generate-cache-salt-bad",
        REFUSED,
        "a salt that vLLM's Python server refuses; the recorded one takes any",
    ),
    ("generate-cache-salt-empty", REFUSED, "as above"),
    ("generate-dp-rank-text", REFUSED, "a rank is honoured or refused, never dropped"),
    ("generate-logit-bias", SERVED, "JSON's keys are strings, and the recorded server wants numbers"),
    ("generate-n-2", SERVED, "several continuations are possible here"),
    ("generate-n-2-stream", SERVED, "as above"),
    (
        "generate-output-bad-mode",
        REFUSED,
        "there is only one mode, and the recorded server ignores the field",
    ),
    ("generate-output-text", REFUSED, "as above"),
    ("generate-output-text-stream", REFUSED, "as above"),
    (
        "generate-prompt-logprob-token-ids",
        REFUSED,
        "not over gRPC; the recorded server drops it without a word",
    ),
    (
        "generate-stop-string-no-detokenize",
        REFUSED,
        "stop strings are found in text; the recorded server never stops",
    ),
    ("generate-stop-string", STOPPED, "the recorded server ignores stop strings on this route"),
    ("generate-stop-string-stream", STOPPED, "as above"),
    (
        "generate-stop-token",
        &["finish reasons 0: stop became 0: length", "tokens 3 became 6"],
        "the simulated model never draws the recorded stop token",
    ),
];

/// How the answer to a recorded request is known to differ.
pub(super) fn of(name: &str) -> &'static [&'static str] {
    EXCEPTIONS
        .iter()
        .find(|(exception, ..)| *exception == name)
        .map_or(&[], |(_, differences, _)| differences)
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
