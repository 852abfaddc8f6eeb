//! The trace, and the prompts that stand for it.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tito_kv_index::Hasher;

use crate::ReplayConfig;

/// One line of a trace in Mooncake's format (FAST'25).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TraceRequest {
    /// Arrival, in milliseconds since the start of the trace.
    pub timestamp: f64,
    /// Tokens of the prompt.
    pub input_length: u32,
    /// Tokens to generate.
    pub output_length: u32,
    /// One id per block of the prompt. Equal ids are equal prompts up to the end of that block.
    pub hash_ids: Vec<u64>,
}

/// What all policies see of a trace: order, times and block identities.
pub(crate) struct Prompts {
    /// Requests by arrival; those of one moment in the order of the trace.
    pub(crate) order: Vec<u32>,
    /// Arrivals in virtual time, by request.
    pub(crate) arrivals: Vec<Duration>,
    /// Identities of the full blocks, by request.
    pub(crate) chains: Vec<Arc<[u64]>>,
}

impl Prompts {
    pub(crate) fn new(trace: &[TraceRequest], config: &ReplayConfig) -> Self {
        let mut order: Vec<u32> = (0..trace.len() as u32).collect();
        order.sort_by(|&a, &b| trace[a as usize].timestamp.total_cmp(&trace[b as usize].timestamp));
        let start = order.first().map_or(0.0, |&first| trace[first as usize].timestamp);
        let arrival = |request: &TraceRequest| {
            let seconds = (request.timestamp - start) / 1000.0 / config.speed;
            // Checked before: finite, and a year at most.
            Duration::from_secs_f64(seconds.max(0.0))
        };
        let hasher = hasher(config.seed);
        let block_tokens = config.engine.block_tokens;
        let root = hasher.root(block_tokens, None, None);
        let chain = |(index, request): (usize, &TraceRequest)| -> Arc<[u64]> {
            let mut chain = Vec::with_capacity((request.input_length / block_tokens) as usize);
            let tokens = tokens(request, index, block_tokens);
            hasher.extend(root, &tokens, block_tokens as usize, &mut chain);
            chain.into()
        };
        Self {
            order,
            arrivals: trace.iter().map(arrival).collect(),
            chains: trace.iter().enumerate().map(chain).collect(),
        }
    }

    /// From the first arrival to the last.
    pub(crate) fn seconds(&self) -> f64 {
        self.arrivals.iter().max().copied().unwrap_or_default().as_secs_f64()
    }
}

/// Brings prompts and events to one identity.
pub(crate) fn hasher(seed: u64) -> Hasher {
    Hasher::new(u128::from(seed) << 64 | 0x7265_706c_6179)
}

/// Token ids that are equal where the trace says that prompts are. A prompt longer than its ids ends in tokens of
/// its own.
pub(crate) fn tokens(request: &TraceRequest, index: usize, block_tokens: u32) -> Vec<u32> {
    let mut tokens = Vec::with_capacity(request.input_length as usize);
    let mut ids = request.hash_ids.iter();
    while (tokens.len() as u32) < request.input_length {
        let id = ids.next().map_or_else(|| own(index, tokens.len()), |id| mix(*id));
        let count = block_tokens.min(request.input_length - tokens.len() as u32);
        tokens.extend((0..count).map(|at| (id.wrapping_add(u64::from(at).wrapping_mul(ODD)) >> 32) as u32));
    }
    tokens
}

/// Token ids of a request's output: nobody else's.
pub(crate) fn output(request: &TraceRequest, index: usize) -> Vec<u32> {
    let own = own(index, usize::MAX);
    (0..u64::from(request.output_length.max(1)))
        .map(|at| (own.wrapping_add(at.wrapping_mul(ODD)) >> 32) as u32)
        .collect()
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

fn own(index: usize, position: usize) -> u64 {
    mix(mix(index as u64) ^ position as u64 ^ 1 << 63)
}

fn mix(word: u64) -> u64 {
    let mut word = word.wrapping_add(ODD);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
