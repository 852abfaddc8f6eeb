//! Where a streamed reply still says otherwise than a whole one.

/// The failure, or `*` for any; how the stream differs, with `*` for what varies; the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("malformed-first", "status 200, whole 502", HEAD),
    ("miscounted-first", "status 200, whole 502", HEAD),
    ("misplaced-first", "status 200, whole 502", HEAD),
    ("stalls-first", "status 200, whole 504", HEAD),
    ("gone-later", "error.code is \"worker_lost\", whole \"worker_unreachable\"", UNARY),
    ("gone-later", "error.message is *, whole \"the engine could not be reached\"", UNARY),
    (
        "*",
        "body.model is null, whole \"m\"",
        "a chunk of the generate route names no model, as vLLM's do not",
    ),
    (
        "*",
        "body.choices[*].prompt_token_ids is null, whole *",
        "a stream tells the ids of each prompt once, with the first of its choices",
    ),
];

const HEAD: &str = "the head of a stream leaves with the engine's acceptance, before the first token";
const UNARY: &str =
    "the engine's unary call does not tell one that was never begun from one that was lost midway";

/// Exceptions that no row has shown yet, by their place in the list.
pub(super) struct Unused(Vec<bool>);

impl Unused {
    pub(super) fn all() -> Self {
        Self(vec![true; EXCEPTIONS.len()])
    }

    /// Whether a difference is listed.
    pub(super) fn listed(&mut self, failure: &str, difference: &str) -> bool {
        let matching = |(name, listed, _): &(&str, &str, &str)| {
            (*name == "*" || *name == failure) && fits(listed, difference)
        };
        let known = EXCEPTIONS.iter().position(matching);
        known.map(|at| self.0[at] = false).is_some()
    }

    /// Those that nothing needs any more.
    pub(super) fn stale(&self) -> Vec<&'static str> {
        let stale = EXCEPTIONS.iter().zip(&self.0).filter(|(_, unused)| **unused);
        stale.map(|((_, difference, _), _)| *difference).collect()
    }
}

/// Whether a text is the pattern with something in the place of each `*`.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text
            .strip_prefix(head)
            .is_some_and(|tail| tail.char_indices().any(|(at, _)| fits(rest, &tail[at..])) || fits(rest, "")),
    }
}

#[test]
fn a_pattern_fits_what_has_something_in_the_place_of_its_stars() {
    for (pattern, text, expected) in [
        ("a[*].b is *", "a[12].b is [1,2]", true),
        ("a[*].b is *", "a[12].c is [1,2]", false),
        ("status 200", "status 200", true),
        ("status 200", "status 2000", false),
    ] {
        assert_eq!(fits(pattern, text), expected, "{pattern} for {text}");
    }
    assert!(EXCEPTIONS.iter().all(|(.., reason)| !reason.is_empty()));
}
