//! Names for blocks, as traces have them: equal ids are equal prompts up to the end of that block.

use std::collections::BTreeMap;

/// Counts up the blocks it has seen, each with all before it.
pub(super) struct Blocks {
    block_tokens: usize,
    /// By the id of the block before and the tokens of this one.
    ids: BTreeMap<(Option<u64>, Vec<u32>), u64>,
}

impl Blocks {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self { block_tokens: block_tokens as usize, ids: BTreeMap::new() }
    }

    /// The ids of all full blocks.
    pub(super) fn ids(&mut self, tokens: &[u32]) -> Vec<u64> {
        let mut before = None;
        let mut found = Vec::new();
        for block in tokens.chunks_exact(self.block_tokens) {
            let next = self.ids.len() as u64;
            let id = *self.ids.entry((before, block.to_vec())).or_insert(next);
            found.push(id);
            before = Some(id);
        }
        found
    }
}
