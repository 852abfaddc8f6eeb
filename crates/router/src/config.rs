use std::time::Duration;

use tito_policy::{BoardConfig, PolicyKind};

/// How requests are routed.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteConfig {
    /// The policy and what it weighs.
    pub board: BoardConfig,
    /// What may be in flight on one target.
    pub target_limit: TargetLimit,
    /// Requests waiting for a target; one more is refused.
    pub queue_requests_max: usize,
    /// Longest wait for a target.
    pub queue_timeout: Duration,
}

impl RouteConfig {
    /// The documented defaults: those of the board; a target takes four times what it runs at a time, and 8,192 requests
    /// wait for a place, up to a minute.
    pub const fn new(policy: PolicyKind, seed: u64) -> Self {
        Self {
            board: BoardConfig::new(policy, seed),
            target_limit: TargetLimit::Auto,
            queue_requests_max: 8192,
            queue_timeout: Duration::from_secs(60),
        }
    }
}

/// How many continuations may be in flight on one target. One with none takes any request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetLimit {
    /// A few times what the engine runs at a time: enough for its own scheduler to choose from, and late enough
    /// for ours to choose well.
    Auto,
    /// That many.
    Continuations(u32),
    /// No limit.
    Off,
}

/// How many times what it runs an engine is given.
const AUTO_FACTOR: u32 = 4;

impl TargetLimit {
    /// The limit of a target that runs `running_max` continuations at a time.
    pub(crate) fn of(self, running_max: u32) -> u32 {
        match self {
            Self::Auto => running_max.saturating_mul(AUTO_FACTOR),
            Self::Continuations(limit) => limit,
            Self::Off => u32::MAX,
        }
    }
}
