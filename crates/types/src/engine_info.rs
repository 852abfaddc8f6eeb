use std::ops::Range;

use crate::Pixels;

/// What an engine says about itself when it is first reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// Engine release, "0.32.0".
    pub engine_version: String,
    /// Changes whenever the engine process does.
    pub instance_id: String,
    /// What it tells about its block tables.
    pub kv_events: KvSupport,
    /// What it expects inside media features, as the operator stated it.
    pub pixels: Option<Pixels>,
    /// What must stay the same across reconnects.
    pub identity: Identity,
}

/// Whether an engine tells what its block tables hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvSupport {
    /// It does not, and why; it is routed to by load.
    Off(String),
    /// One feed per rank.
    On {
        /// Whether missed news can be asked for again, on every rank.
        replay: bool,
    },
}

/// The part of an engine that a reconnect may not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Served model.
    pub model: ModelInfo,
    /// How the engine is split.
    pub parallelism: Parallelism,
    /// What it can do besides generating.
    pub capabilities: Capabilities,
    /// Context length in tokens.
    pub max_model_len: u32,
    /// Tokens per KV block.
    pub kv_block_size: u32,
    /// KV blocks over all ranks behind this address.
    pub total_kv_blocks: u64,
    /// Sequences one rank runs at a time; at least 1.
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

/// An adapter that an engine has loaded. Requests name it as their model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Its name; none of the served names.
    pub name: String,
    /// The engine's number for this load: a later load has a greater one, also under the same name.
    pub id: u64,
    /// Path or hub name the engine loaded it from.
    pub source: String,
}

/// Sizes of the parallel groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    /// Decode-context-parallel ranks.
    pub decode_context: u32,
    /// Processes of one data-parallel rank.
    pub world: u64,
}

/// What the engine was started to be able to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Adapters in one batch; 0 where adapters are off.
    pub max_loras: u32,
    /// Backend of weight transfer; absent where it is off.
    pub weight_transfer: Option<String>,
    /// Whether weights of a draft model can be updated.
    pub draft_weight_updates: bool,
    /// Whether the engine can sleep.
    pub sleep: bool,
    /// Reasoning parser by name; empty for none.
    pub reasoning_parser: String,
    /// Tool-call parser by name; empty for none.
    pub tool_call_parser: String,
    /// Tokens per attention block where it differs from the KV block and is known.
    pub attention_block_size: Option<u64>,
}

impl Parallelism {
    /// Global data-parallel ranks behind this address.
    pub fn local_ranks(&self) -> Range<u32> {
        self.data_rank..self.data_rank.saturating_add(self.data_local.max(1))
    }
}

impl Identity {
    /// Tokens of KV that one local rank has room for.
    pub fn rank_tokens(&self) -> u64 {
        let ranks = u64::from(self.parallelism.data_local.max(1));
        (self.total_kv_blocks / ranks).max(1).saturating_mul(u64::from(self.kv_block_size))
    }

    /// Continuations of one prompt that can run at a time.
    pub fn n_max(&self) -> u32 {
        u32::try_from(self.max_running_requests).unwrap_or(u32::MAX)
    }
}
