/// What an engine says about itself when it is first reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// Engine release, "0.32.0".
    pub engine_version: String,
    /// Changes whenever the engine process does.
    pub instance_id: String,
    /// What must stay the same across reconnects.
    pub identity: Identity,
}

/// The part of an engine that a reconnect may not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Served model.
    pub model: ModelInfo,
    /// How the engine is split.
    pub parallelism: Parallelism,
    /// Context length in tokens.
    pub max_model_len: u32,
    /// Tokens per KV block.
    pub kv_block_size: u32,
    /// KV blocks over all ranks behind this address.
    pub total_kv_blocks: u64,
    /// Sequences one rank runs at a time.
    pub max_running_requests: u64,
    /// Tokens one rank schedules in one step.
    pub max_batched_tokens: u64,
}

/// Names and abilities of the served model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// Path or hub name the engine loaded.
    pub source: String,
    /// Served names, the primary one first; never empty.
    pub names: Vec<String>,
    /// Whether adapters can be loaded.
    pub lora: bool,
    /// Whether media are accepted.
    pub multimodal: bool,
}

/// Sizes of the parallel groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parallelism {
    /// Tensor-parallel ranks.
    pub tensor: u32,
    /// Pipeline stages.
    pub pipeline: u32,
    /// Data-parallel ranks of the whole deployment.
    pub data: u32,
    /// First data-parallel rank behind this address.
    pub data_rank: u32,
    /// Data-parallel ranks behind this address.
    pub data_local: u32,
}
