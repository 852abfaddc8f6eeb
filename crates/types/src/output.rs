use crate::{RawJson, TokenId};

/// What one choice gained since the last delta. Never repeats anything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delta {
    /// Which choice, counted from 0.
    pub index: u32,
    /// Facts about the prompt, once per prompt, on the first delta of its first choice.
    pub prompt: Option<Box<PromptOutput>>,
    /// New output tokens, in order.
    pub token_ids: Vec<TokenId>,
    /// New text; may lag the tokens and may be empty while they advance.
    pub text: String,
    /// One entry per new token when log-probs were asked, else empty.
    pub logprobs: Vec<TokenLogprob>,
    /// Present on the last delta of this choice.
    pub finish: Option<Box<Finish>>,
}

/// What the engine says about the prompt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PromptOutput {
    /// Prompt length in tokens, after media expansion.
    pub prompt_tokens: u32,
    /// The prompt's ids, when asked.
    pub token_ids: Vec<TokenId>,
    /// One entry per prompt position when asked, else empty. Position 0 is a filler.
    pub logprobs: Vec<TokenLogprob>,
}

/// Log-prob of the sampled (or scored) token and of its rivals.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// The sampled or scored token.
    pub token: TokenId,
    /// Natural logarithm; −∞ is possible, NaN is not.
    pub logprob: f32,
    /// 1-based rank in the vocabulary; 0 where the engine gives none.
    pub rank: u32,
    /// The candidates asked for, in the engine's order; may repeat the token itself.
    pub candidates: Vec<Candidate>,
}

/// One candidate token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Token id.
    pub token: TokenId,
    /// Natural logarithm of its probability.
    pub logprob: f32,
    /// 1-based rank; 0 where it has no meaning.
    pub rank: u32,
}

/// How a choice ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// What stopped it, when the reason is [`FinishReason::Stop`] and the engine says so.
    pub stop: Option<StopCause>,
    /// Output tokens of the whole choice.
    pub output_tokens: u32,
    /// Prompt tokens served from the prefix cache, where the engine reports it.
    pub cached_tokens: Option<u32>,
    /// Values that come only at the end.
    pub extras: Extras,
}

/// Why a choice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// End of sequence, stop token or stop string.
    Stop,
    /// Budget or context used up.
    Length,
    /// Aborted by pause, admin or the engine; the tokens so far are valid.
    Abort,
}

/// What ended a stopped choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopCause {
    /// The model's own end of sequence.
    Eos(TokenId),
    /// A listed stop token.
    Token(TokenId),
    /// A stop string.
    Text(String),
}

/// Terminal values that pass through unread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extras {
    /// Prefill/decode hand-off, a JSON object.
    pub kv_transfer_params: Option<RawJson>,
    /// Encoder-cache hand-off, a JSON object.
    pub ec_transfer_params: Option<RawJson>,
    /// Tokens that survived the sampling filters, one row per output token.
    pub sampling_mask: Option<Vec<Vec<TokenId>>>,
    /// Mixture-of-experts routing (rows × layers × top-k), as the engine encoded it.
    pub routed_experts: Option<RawJson>,
    /// Which weights made which output tokens.
    pub weight_versions: Vec<VersionSpan>,
}

/// Output tokens `start..end` were made by weights `version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionSpan {
    /// The engine's name for the weights.
    pub version: String,
    /// First output token.
    pub start: u32,
    /// One past the last output token.
    pub end: u32,
}
