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

const EXCEPTIONS: &[(&str, Aspect, &str)] = &[
    ("grpc-generate/stream-stop-token", Aspect::End, MODEL),
    ("grpc-generate/unary-stop-token", Aspect::End, MODEL),
    ("grpc-generate/unary-stop-token-include", Aspect::End, MODEL),
    ("grpc-generate/unary-structured-json-object", Aspect::End, MODEL),
    ("grpc-generate/stream-greedy-text", Aspect::PromptTokens, "the mock's tokenizer knows bytes only"),
    ("grpc-generate/unary-greedy-text", Aspect::PromptTokens, "the mock's tokenizer knows bytes only"),
    ("grpc-generate/stream-aborted", Aspect::All, "ended by a second call: see the conformance suite"),
    ("grpc-generate/unary-aborted", Aspect::All, "ended by a second call: see the conformance suite"),
    (
        "grpc-generate/stream-cancelled-by-client",
        Aspect::All,
        "the client made the status: see the conformance suite",
    ),
    (
        "grpc-generate/unary-deadline",
        Aspect::All,
        "the mock is faster than the deadline: see the conformance suite",
    ),
    ("light/stream-special-tokens-shown", Aspect::Text, "special tokens have other names"),
    ("light/unary-special-tokens-shown", Aspect::Text, "special tokens have other names"),
    ("grpc-media/media-bad-17mib", Aspect::All, "its bytes are not kept: see the unit tests of media"),
    ("light/exited-generate", Aspect::All, "nothing listens: see `an_exiting_engine_replays`"),
];

/// All recordings with this prefix were made while nothing listened.
const NOT_UP: &str = "light/control-rl-";

pub(super) fn has(name: &str, aspect: Aspect) -> bool {
    let listed = EXCEPTIONS.iter().any(|(listed, what, _)| *listed == name && *what == aspect);
    listed || (aspect == Aspect::All && name.starts_with(NOT_UP))
}

pub(super) fn named(directory: &str) -> Vec<&'static str> {
    EXCEPTIONS.iter().filter_map(|(name, _, _)| name.strip_prefix(directory)?.strip_prefix('/')).collect()
}

pub(super) const CONTROL_ORDER: [&str; 45] = [
    "control-server-info",
    "control-model-info",
    "control-kv-event-sources",
    "control-weight-version-initial",
    "control-weight-version-blank",
    "control-weight-version-set",
    "control-weight-version-after",
    "control-abort-unknown",
    "control-abort-empty",
    "control-is-paused-no",
    "control-pause-unspecified",
    "control-is-paused-unspecified",
    "control-resume-after-unspecified",
    "control-pause-wait",
    "control-is-paused-wait",
    "control-resume-after-wait",
    "control-pause-keep",
    "control-is-paused-keep",
    "control-resume-after-keep",
    "control-pause-abort",
    "control-is-paused-abort",
    "control-resume-after-abort",
    "control-pause-keep-no-clear",
    "control-generate-while-paused",
    "control-is-sleeping-while-paused",
    "control-resume",
    "control-resume-again",
    "control-pause-bad-mode",
    "control-running-meets-pause-abort",
    "control-running-meets-pause-keep",
    "control-running-meets-pause-wait",
    "control-lora-off-list",
    "control-lora-off-load",
    "control-lora-off-unload",
    "control-lora-off-unload-blank",
    "control-sleep-off",
    "control-wake-off",
    "control-is-sleeping",
    "control-weights-off-init",
    "control-weights-off-init-garbage",
    "control-weights-off-start",
    "control-weights-off-start-draft",
    "control-weights-off-update",
    "control-weights-off-finish",
    "control-shutdown",
];

pub(super) const RANKS_ORDER: [&str; 12] = [
    "dp2-server-info",
    "dp2-kv-event-sources",
    "dp2-rank-0",
    "dp2-rank-1",
    "dp2-no-rank",
    "dp2-rank-2",
    "dp2-rank-abc",
    "dp2-weight-version-set",
    "dp2-weight-version",
    "dp2-pause",
    "dp2-is-paused",
    "dp2-resume",
];

pub(super) const WEIGHTS_ORDER: [&str; 25] = [
    "control-rl-server-info",
    "control-rl-start-before-init",
    "control-rl-init-garbage",
    "control-rl-init-list",
    "control-rl-init-empty",
    "control-rl-init-unknown-key",
    "control-rl-update-list",
    "control-rl-update-without-start",
    "control-rl-start-draft",
    "control-rl-start",
    "control-rl-start-twice",
    "control-rl-finish-blank",
    "control-rl-finish",
    "control-rl-finish-twice",
    "control-rl-weight-version",
    "control-rl-sleep-0",
    "control-rl-is-sleeping-0",
    "control-rl-wake-scheduling",
    "control-rl-sleep-1",
    "control-rl-is-sleeping-1",
    "control-rl-wake-weights",
    "control-rl-is-sleeping-partly",
    "control-rl-wake",
    "control-rl-is-sleeping-after",
    "control-rl-generate-after",
];
