use std::sync::Arc;

use crate::{Candidates, Media, RawJson, RequestId, Sampling, Stopping, TokenId, WorkerId};

/// One prompt to continue, `n` times. The superset of what engines can do.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateRequest {
    /// The client's id. Engines see it with a unique suffix.
    pub id: RequestId,
    /// Served name or alias; always one that the catalogue resolved.
    pub model: String,
    /// Prompt token ids; never empty, shared by every layer and attempt.
    pub prompt: Arc<[TokenId]>,
    /// Images, video and audio of the prompt.
    pub media: Media,
    /// How many continuations; at least 1.
    pub n: u32,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// When generation ends.
    pub stopping: Stopping,
    /// The client's `sampling_params` as it arrived, for engines that take it whole.
    pub native_sampling: Option<Arc<RawJson>>,
    /// What the reply must hold.
    pub outputs: Outputs,
    /// Prefix cache and transfer options.
    pub kv: KvOptions,
    /// Lower runs earlier; 0 is the default.
    pub priority: i32,
    /// Groups the turns of one rollout.
    pub session: Option<String>,
    /// Data-parallel rank the client pinned (global numbering).
    pub rank: Option<u32>,
    /// Worker the client pinned, by its id.
    pub worker: Option<WorkerId>,
    /// Reasoning state for engines that gate structured output on it.
    pub reasoning: Option<Reasoning>,
    /// Whether deltas are worth their cost.
    pub delivery: Delivery,
}

/// Whether the reader wants tokens as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Not needed: an engine that can answers with one delta per choice, for half the work.
    Whole,
    /// Deltas as the engine makes them.
    Deltas,
}

/// What the reply must hold beyond token ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outputs {
    /// Log-probs of output tokens.
    pub logprobs: Option<Candidates>,
    /// Log-probs of prompt tokens; never [`Candidates::Ids`].
    pub prompt_logprobs: Option<Candidates>,
    /// Decoded text.
    pub text: bool,
    /// The prompt's token ids as the engine saw them.
    pub prompt_token_ids: bool,
    /// Leave special tokens out of the text.
    pub skip_special_tokens: bool,
    /// First position whose routed experts are wanted, where the engine returns them; at most the prompt length.
    pub routed_experts_prompt_start: Option<u32>,
}

/// Prefix-cache identity and KV transfer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KvOptions {
    /// Namespace of the prefix cache: 1–128 characters, none of `@ / \` or NUL.
    pub cache_salt: Option<String>,
    /// Do not read the prefix cache for this request.
    pub bypass_prefix_cache: bool,
    /// Prefill/decode hand-off, a JSON object.
    pub transfer_params: Option<RawJson>,
    /// Encoder-cache hand-off, a JSON object.
    pub ec_transfer_params: Option<RawJson>,
}

/// Reasoning state carried by the client across turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// Whether reasoning had ended in the prompt; absent is unknown.
    pub ended: Option<bool>,
    /// `chat_template_kwargs`, a JSON object.
    pub chat_template_kwargs: Option<RawJson>,
}
