//! The pool of KV blocks: reference counts, prefix cache, least-recently-used eviction.
//!
//! As in vLLM 0.32 (`v1/core/block_pool.py`) equal blocks are not merged: each block that was computed is a *copy* under
//! the same hash, a look-up finds the oldest copy, and the eviction of each copy is an event of its own.
//!
//! Blocks, the free list and the copies of a hash live in one vector, linked by index, so every operation is
//! constant-time.

use std::hash::{BuildHasherDefault, Hasher};

use crate::RequestId;

#[cfg(test)]
mod tests;

/// The identity of a full block: namespace, parent, ids and content, chained. A name inside one simulation;
/// what an engine publishes is computed from the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub u64);

/// A run of newly cached blocks of one request: as many copies, of new content or of content that is cached already.
/// The parent is cached: a prefix never loses its start first.
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
    /// One copy more of each of these blocks is cached.
    Stored(StoredBlocks),
    /// One copy of each of these blocks is cached no more. A hash that is named twice lost two copies.
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
    /// Neighbours in the free list.
    free: Links,
    /// Neighbours among the copies of its hash.
    copies: Links,
}

#[derive(Debug, Clone, Copy)]
struct Links {
    previous: BlockIndex,
    next: BlockIndex,
}

impl Links {
    const NONE: Self = Self { previous: NONE, next: NONE };
}

/// The oldest and the newest copy of a hash.
#[derive(Debug, Clone, Copy)]
struct Copies {
    first: BlockIndex,
    last: BlockIndex,
}

#[expect(clippy::disallowed_types, reason = "looked up by key only, never iterated: no order can leak")]
type ByHash = std::collections::HashMap<BlockHash, Copies, BuildHasherDefault<Spread>>;

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
        let empty = Block { references: 0, hash: None, free: Links::NONE, copies: Links::NONE };
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

    /// How many hashes can be found, whatever the number of their copies.
    pub(crate) fn cached(&self) -> u32 {
        self.cached.len() as u32
    }

    /// The oldest copy of a block.
    pub(crate) fn find(&self, hash: BlockHash) -> Option<BlockIndex> {
        self.cached.get(&hash).map(|copies| copies.first)
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
            self.forget_copy(index, hash);
            if self.record {
                self.removed.push(hash);
            }
        }
        Some(index)
    }

    /// Makes a full block findable that has no hash yet, as the newest copy of its content.
    pub(crate) fn cache(&mut self, index: BlockIndex, hash: BlockHash) {
        let copies = self.cached.entry(hash).or_insert(Copies { first: index, last: NONE });
        let last = std::mem::replace(&mut copies.last, index);
        if last != NONE {
            self.blocks[last as usize].copies.next = index;
        }
        let block = &mut self.blocks[index as usize];
        debug_assert_eq!(block.hash, None, "a block is cached once");
        block.hash = Some(hash);
        block.copies = Links { previous: last, next: NONE };
    }

    /// Takes a block out of the copies of its hash.
    fn forget_copy(&mut self, index: BlockIndex, hash: BlockHash) {
        let Links { previous, next } = self.blocks[index as usize].copies;
        let copies = self.cached.get_mut(&hash).expect("a block with a hash is one of its copies");
        match (previous, next) {
            (NONE, NONE) => {
                self.cached.remove(&hash);
            }
            (NONE, next) => copies.first = next,
            (previous, NONE) => copies.last = previous,
            (_, _) => {}
        }
        if previous != NONE {
            self.blocks[previous as usize].copies.next = next;
        }
        if next != NONE {
            self.blocks[next as usize].copies.previous = previous;
        }
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
        block.free = Links { previous: tail, next: NONE };
        match tail {
            NONE => self.free_head = index,
            tail => self.blocks[tail as usize].free.next = index,
        }
        self.free_tail = index;
        self.free += 1;
    }

    fn link_first(&mut self, index: BlockIndex) {
        let head = self.free_head;
        let block = &mut self.blocks[index as usize];
        block.free = Links { previous: NONE, next: head };
        match head {
            NONE => self.free_tail = index,
            head => self.blocks[head as usize].free.previous = index,
        }
        self.free_head = index;
        self.free += 1;
    }

    fn unlink(&mut self, index: BlockIndex) {
        let Links { previous, next } = self.blocks[index as usize].free;
        match previous {
            NONE => self.free_head = next,
            previous => self.blocks[previous as usize].free.next = next,
        }
        match next {
            NONE => self.free_tail = previous,
            next => self.blocks[next as usize].free.previous = previous,
        }
        self.free -= 1;
    }
}
