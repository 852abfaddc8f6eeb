//! A trace: requests with times, lengths and names for blocks, without any text.

use serde::Deserialize;

/// One line of a trace: Mooncake's format (FAST'25), and three optional members beside it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct TraceRequest {
    /// Arrival, in milliseconds since the start of the trace.
    pub timestamp: f64,
    /// Tokens of the prompt.
    pub input_length: u32,
    /// Tokens to generate.
    pub output_length: u32,
    /// One id per block of the prompt. Equal ids are equal prompts up to the end of that block.
    pub hash_ids: Vec<u64>,
    /// One id per block of prompt and output together, from the first block that is not all prompt.
    #[serde(default)]
    pub output_hash_ids: Option<Vec<u64>>,
    /// Names the conversation whose next turn this is.
    #[serde(default)]
    pub session_id: Option<String>,
    /// From the reply to the turn before until this arrival, in milliseconds.
    #[serde(default)]
    pub delay: Option<f64>,
}

impl TraceRequest {
    /// Full blocks of the prompt that have an id.
    pub(crate) fn full_blocks(&self, block_tokens: u32) -> usize {
        ((self.input_length / block_tokens) as usize).min(self.hash_ids.len())
    }

    /// Tokens that are generated: at least one.
    pub(crate) fn output_tokens(&self) -> u32 {
        self.output_length.max(1)
    }

    /// Whether its prompt can be the other's prompt and output with something behind: all full blocks match, and it is
    /// long enough.
    pub(crate) fn extends(&self, earlier: &Self, block_tokens: u32) -> bool {
        let full = earlier.full_blocks(block_tokens);
        let length = u64::from(earlier.input_length) + u64::from(earlier.output_tokens());
        full <= self.full_blocks(block_tokens)
            && earlier.hash_ids[..full] == self.hash_ids[..full]
            && u64::from(self.input_length) >= length
    }
}

/// Requests by arrival; those of one moment in the order of the trace.
pub(crate) fn order(trace: &[TraceRequest]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..trace.len() as u32).collect();
    order.sort_by(|&a, &b| trace[a as usize].timestamp.total_cmp(&trace[b as usize].timestamp));
    order
}
