//! What a caller asks of the simulation, and how a request ends.

use std::time::Duration;

use crate::Sampling;

/// The caller's name for a request. Never reused while the first use is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Content that is part of the prompt without being an id, such as an image behind placeholder ids.
///
/// It enters the identity of every block that it overlaps and the context of every id after its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extra {
    /// First prompt position it covers, in tokens.
    pub offset_tokens: u32,
    /// Positions it covers, in tokens; 0 covers nothing.
    pub length_tokens: u32,
    /// Its identity.
    pub key: u64,
}

/// Output that is told instead of sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The ids, in order. They pass the stop conditions like sampled ones.
    pub ids: Vec<u32>,
    /// What follows the last id: this end, or the model's own next ids.
    pub then: Option<Finish>,
}

/// A request to the simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct SimRequest {
    /// The caller's name for it.
    pub id: RequestId,
    /// The prompt; never empty.
    pub prompt: Vec<u32>,
    /// Content behind placeholder ids, in order of offset.
    pub extras: Vec<Extra>,
    /// Key of the adapter, which changes what is generated and where it is cached.
    pub adapter: Option<u64>,
    /// Key of the cache salt, which changes where it is cached only.
    pub salt: Option<u64>,
    /// Whether cached prefixes of others may be used.
    pub read_cache: bool,
    /// Whether the KV blocks of the prompt come from elsewhere: the prefill costs one token.
    pub remote_prefill: bool,
    /// Most tokens to generate; at least 1.
    pub max_tokens: u32,
    /// Tokens before which neither EOS nor a stop id may be chosen.
    pub min_tokens: u32,
    /// Ids that end the request.
    pub stop_ids: Vec<u32>,
    /// Whether the primary EOS id is an id like any other.
    pub ignore_eos: bool,
    /// Lower starts earlier and ties go by arrival, where the policy looks at it.
    pub priority: i32,
    /// How ids are chosen.
    pub sampling: Sampling,
    /// Output that is told instead of sampled.
    pub script: Option<Script>,
    /// Tokens per step once decoding, as with speculative decoding; at least 1.
    pub tokens_per_step: u32,
    /// After this many output tokens the request makes no progress and keeps its place and its blocks.
    pub stall_after: Option<u32>,
    /// Least time between two of its steps.
    pub pace: Duration,
}

impl SimRequest {
    /// A greedy request without any wish but a length.
    pub fn new(id: RequestId, prompt: Vec<u32>, max_tokens: u32) -> Self {
        Self {
            id,
            prompt,
            extras: Vec::new(),
            adapter: None,
            salt: None,
            read_cache: true,
            remote_prefill: false,
            max_tokens,
            min_tokens: 0,
            stop_ids: Vec::new(),
            ignore_eos: false,
            priority: 0,
            sampling: Sampling::greedy(),
            script: None,
            tokens_per_step: 1,
            stall_after: None,
            pace: Duration::ZERO,
        }
    }
}

/// Why a request stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// The primary EOS id.
    Eos,
    /// One of the request's stop ids.
    Id(u32),
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// An id ended it.
    Stop(StopCause),
    /// The token limit, or the end of the context.
    Length,
    /// The engine ended it before its time.
    Aborted,
    /// The engine failed it.
    Error,
}
