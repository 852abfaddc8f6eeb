use crate::WorkerId;

/// Where one request was sent, as the router saw it at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The worker.
    pub worker: WorkerId,
    /// Global data-parallel rank; absent where the engine was left to choose.
    pub rank: Option<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Leading prompt tokens that the target's block table held, on any tier.
    pub overlap_tokens: u64,
    /// Leading prompt tokens that it was expected to hold once what was sent to it before has run.
    pub predicted_tokens: u64,
    /// What decided: `pin`, `session`, `siblings` or `policy`.
    pub rule: &'static str,
}
