//! Where the mock may differ from a recording, and why. Also the order of recordings that depend on each other.

/// What is not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aspect {
    /// The recording is not replayed.
    All,
    /// The number of prompt tokens.
    PromptTokens,
    /// How the output ends and how long it is.
    End,
    /// The text.
    Text,
}

const MODEL: &str = "depends on which ids the model's weights make likely";
const BYTES: &str = "the mock's tokenizer knows bytes only";
const NAMES: &str = "special tokens have other names";

const EXCEPTIONS: &[(&str, Aspect, &str)] = &[
    ("grpc-generate/stream-stop-token", Aspect::End, MODEL),
    ("grpc-generate/unary-stop-token", Aspect::End, MODEL),
    ("grpc-generate/unary-stop-token-include", Aspect::End, MODEL),
    ("grpc-generate/unary-structured-json-object", Aspect::End, MODEL),
    ("grpc-generate/stream-greedy-text", Aspect::PromptTokens, BYTES),
    ("grpc-generate/unary-greedy-text", Aspect::PromptTokens, BYTES),
    ("grpc-generate/stream-aborted", Aspect::All, "a second call ended it: see the conformance suite"),
    ("grpc-generate/unary-aborted", Aspect::All, "a second call ended it: see the conformance suite"),
    ("grpc-generate/stream-cancelled-by-client", Aspect::All, "the status is the client's own"),
    ("grpc-generate/unary-deadline", Aspect::All, "the mock is faster: see the conformance suite"),
    ("light/stream-special-tokens-shown", Aspect::Text, NAMES),
    ("light/unary-special-tokens-shown", Aspect::Text, NAMES),
    ("grpc-media/media-bad-17mib", Aspect::All, "its bytes are not kept: see the unit tests of media"),
    ("light/exited-generate", Aspect::All, "nothing listens: see `an_exiting_engine_replays`"),
];

/// All recordings with this prefix were made while nothing listened.
const NOT_UP: &str = "light/control-rl-";

pub(super) fn has(name: &str, aspect: Aspect) -> bool {
    let listed = EXCEPTIONS.iter().any(|(listed, what, _)| *listed == name && *what == aspect);
    listed || (aspect == Aspect::All && name.starts_with(NOT_UP))
}

pub(super) fn named() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXCEPTIONS.iter().map(|(name, ..)| name.split_once('/').unwrap())
}

/// Recordings of `grpc-control`, without `control-`, by what they are about.
pub(super) const CONTROL_ORDER: &str = "
    server-info model-info kv-event-sources
    weight-version-initial weight-version-blank weight-version-set weight-version-after
    abort-unknown abort-empty
    is-paused-no pause-unspecified is-paused-unspecified resume-after-unspecified
    pause-wait is-paused-wait resume-after-wait
    pause-keep is-paused-keep resume-after-keep
    pause-abort is-paused-abort resume-after-abort
    pause-keep-no-clear generate-while-paused is-sleeping-while-paused resume resume-again pause-bad-mode
    running-meets-pause-abort running-meets-pause-keep running-meets-pause-wait
    lora-off-list lora-off-load lora-off-unload lora-off-unload-blank
    sleep-off wake-off is-sleeping
    weights-off-init weights-off-init-garbage weights-off-start weights-off-start-draft
    weights-off-update weights-off-finish
    shutdown";

/// The others of `grpc-control`, of an engine with a weight-transfer backend.
pub(super) const WEIGHTS_ORDER: &str = "
    rl-server-info
    rl-start-before-init rl-init-garbage rl-init-list rl-init-empty rl-init-unknown-key
    rl-update-list rl-update-without-start rl-start-draft rl-start rl-start-twice
    rl-finish-blank rl-finish rl-finish-twice rl-weight-version
    rl-sleep-0 rl-is-sleeping-0 rl-wake-scheduling
    rl-sleep-1 rl-is-sleeping-1 rl-wake-weights rl-is-sleeping-partly rl-wake rl-is-sleeping-after
    rl-generate-after";

/// Recordings of `grpc-dp2`, without `dp2-`.
pub(super) const RANKS_ORDER: &str = "
    server-info kv-event-sources rank-0 rank-1 no-rank rank-2 rank-abc
    weight-version-set weight-version pause is-paused resume";

/// The names in an order, with what they all begin with.
pub(super) fn names(prefix: &str, order: &str) -> Vec<String> {
    order.split_whitespace().map(|name| format!("{prefix}{name}")).collect()
}
