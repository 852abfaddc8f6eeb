//! The pool of KV blocks: reference counts, prefix cache, least-recently-used eviction.
//!
//! Blocks and the free list live in one vector, linked by index, so every operation is constant-time.

use std::hash::{BuildHasherDefault, Hasher};

use crate::RequestId;

#[cfg(test)]
mod tests;

/// The identity of a full block: namespace, parent, ids and content, chained. A name inside one simulation;
/// what an engine publishes is computed from the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub u64);

/// A run of new cached blocks of one request. The parent is cached: a prefix never loses its start first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlocks {
    /// Whose tokens they hold.
    pub request: RequestId,
    /// The block before the first one; none at the start of a sequence.
    pub parent: Option<BlockHash>,
    /// The blocks, in order.
    pub blocks: Vec<BlockHash>,
    /// Position of the first token, in tokens.
    pub offset_tokens: u32,
    /// The ids they hold: `blocks.len() * block_tokens`.
    pub token_ids: Vec<u32>,
}

/// A change of the prefix cache, in the order in which a publisher sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvEvent {
    /// Blocks can be found from now on.
    Stored(StoredBlocks),
    /// Blocks cannot be found any more.
    Removed(Vec<BlockHash>),
    /// The cache is empty. Like vLLM 0.32, it leads the first step that stores blocks after the reset.
    Cleared,
}

/// Index of a block.
pub(crate) type BlockIndex = u32;

const NONE: BlockIndex = BlockIndex::MAX;

#[derive(Debug, Clone)]
struct Block {
    references: u32,
    hash: Option<BlockHash>,
    previous: BlockIndex,
    next: BlockIndex,
}

#[expect(clippy::disallowed_types, reason = "looked up by key only, never iterated: no order can leak")]
type ByHash = std::collections::HashMap<BlockHash, BlockIndex, BuildHasherDefault<Spread>>;

/// A hasher for keys that are hashes already.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = crate::hash_bytes(bytes);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// All blocks of one simulation.
#[derive(Debug)]
pub(crate) struct BlockPool {
    blocks: Vec<Block>,
    cached: ByHash,
    /// Blocks nobody references, the next one to be taken first.
    free_head: BlockIndex,
    free_tail: BlockIndex,
    free: u32,
    removed: Vec<BlockHash>,
    record: bool,
}

impl BlockPool {
    /// A pool of `blocks` blocks; `record` keeps what is evicted for [`BlockPool::take_removed`].
    pub(crate) fn new(blocks: u32, record: bool) -> Self {
        let empty = Block { references: 0, hash: None, previous: NONE, next: NONE };
        let mut pool = Self {
            blocks: vec![empty; blocks as usize],
            cached: ByHash::default(),
            free_head: NONE,
            free_tail: NONE,
            free: 0,
            removed: Vec::new(),
            record,
        };
        for index in 0..blocks {
            pool.link_last(index);
        }
        pool
    }

    pub(crate) fn total(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Blocks that nobody references, cached or not.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// How many blocks can be found by their hash.
    pub(crate) fn cached(&self) -> u32 {
        self.cached.len() as u32
    }

    pub(crate) fn find(&self, hash: BlockHash) -> Option<BlockIndex> {
        self.cached.get(&hash).copied()
    }

    pub(crate) fn is_referenced(&self, index: BlockIndex) -> bool {
        self.blocks[index as usize].references > 0
    }

    /// Takes another reference to a cached block.
    pub(crate) fn share(&mut self, index: BlockIndex) {
        if !self.is_referenced(index) {
            self.unlink(index);
        }
        self.blocks[index as usize].references += 1;
    }

    /// Takes the block that was free the longest; what it cached is evicted.
    pub(crate) fn allocate(&mut self) -> Option<BlockIndex> {
        let index = (self.free_head != NONE).then_some(self.free_head)?;
        self.unlink(index);
        self.blocks[index as usize].references = 1;
        if let Some(hash) = self.blocks[index as usize].hash.take() {
            self.cached.remove(&hash);
            if self.record {
                self.removed.push(hash);
            }
        }
        Some(index)
    }

    /// Makes a full block findable, or says which other block has the same content already.
    pub(crate) fn register(&mut self, index: BlockIndex, hash: BlockHash) -> Result<(), BlockIndex> {
        if let Some(&other) = self.cached.get(&hash) {
            return Err(other);
        }
        self.cached.insert(hash, index);
        self.blocks[index as usize].hash = Some(hash);
        Ok(())
    }

    /// Gives a reference back. A block without content is taken again first, a cached one last.
    pub(crate) fn release(&mut self, index: BlockIndex) {
        let block = &mut self.blocks[index as usize];
        block.references -= 1;
        if block.references == 0 {
            if block.hash.is_some() { self.link_last(index) } else { self.link_first(index) }
        }
    }

    /// Empties the prefix cache. False, and nothing happens, while any block is referenced.
    pub(crate) fn clear(&mut self) -> bool {
        if self.free != self.total() {
            return false;
        }
        for block in &mut self.blocks {
            block.hash = None;
        }
        self.cached.clear();
        self.removed.clear();
        true
    }

    /// What was evicted since the last call, in order.
    pub(crate) fn take_removed(&mut self) -> Vec<BlockHash> {
        std::mem::take(&mut self.removed)
    }

    fn link_last(&mut self, index: BlockIndex) {
        let tail = self.free_tail;
        let block = &mut self.blocks[index as usize];
        (block.previous, block.next) = (tail, NONE);
        match tail {
            NONE => self.free_head = index,
            tail => self.blocks[tail as usize].next = index,
        }
        self.free_tail = index;
        self.free += 1;
    }

    fn link_first(&mut self, index: BlockIndex) {
        let head = self.free_head;
        let block = &mut self.blocks[index as usize];
        (block.previous, block.next) = (NONE, head);
        match head {
            NONE => self.free_tail = index,
            head => self.blocks[head as usize].previous = index,
        }
        self.free_head = index;
        self.free += 1;
    }

    fn unlink(&mut self, index: BlockIndex) {
        let Block { previous, next, .. } = self.blocks[index as usize];
        match previous {
            NONE => self.free_head = next,
            previous => self.blocks[previous as usize].next = next,
        }
        match next {
            NONE => self.free_tail = previous,
            next => self.blocks[next as usize].previous = previous,
        }
        self.free -= 1;
    }
}
