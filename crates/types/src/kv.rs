use std::sync::Arc;

use crate::TokenId;

/// An engine's own name for a block: the low 64 bits of its digest. Two engines may name one block differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineHash(pub u64);

/// Where a block lives. Credit weights differ; residency on one tier says nothing about another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// Device memory.
    Gpu,
    /// Host memory.
    Cpu,
    /// Disk or a shared store.
    Storage,
}

/// One change of one rank's block table, already brought to one shape whatever the engine's encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvEvent {
    /// Blocks of one sequence, in order, each the child of the one before.
    Stored(StoredBlocks),
    /// Blocks that the engine had on another tier before, and now has on this one as well: their names are all it tells.
    Copied {
        /// The engine's names.
        hashes: Vec<EngineHash>,
        /// The tier they were copied to.
        tier: Tier,
    },
    /// Blocks that left a tier; unknown names are no mistake.
    Removed {
        /// The engine's names.
        hashes: Vec<EngineHash>,
        /// The tier they left.
        tier: Tier,
    },
    /// Every block of the rank is gone, on every tier.
    Cleared,
}

/// Blocks that became reusable. `tokens.len() == hashes.len() × block_tokens`, and `block_tokens ≥ 1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlocks {
    /// The block before the first; absent at the start of a sequence.
    pub parent: Option<EngineHash>,
    /// The engine's names, one per block.
    pub hashes: Vec<EngineHash>,
    /// Token ids of all blocks.
    pub tokens: Vec<TokenId>,
    /// Tokens per block of this event: the engine's hash granularity, which may be finer than its block size.
    pub block_tokens: u32,
    /// Where they live.
    pub tier: Tier,
    /// Adapter by name.
    pub adapter: Option<Arc<str>>,
    /// Which load of the adapter stored them ([`crate::Adapter::id`]), where the engine tells.
    pub adapter_id: Option<u64>,
    /// Cache salt; known only where the sequence starts in this event.
    pub salt: Option<Arc<str>>,
    /// Empty when no block has any, else one entry per block.
    pub extras: Vec<BlockExtras>,
}

/// What besides its token ids tells a block apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockExtras {
    /// Every media item that overlaps the block, in order.
    pub media: Vec<MediaInBlock>,
    /// Digests of prompt embeddings, and keys we cannot read: equal bytes are equal blocks, nothing else is.
    pub opaque: Vec<Vec<u8>>,
}

/// A media item as one block sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaInBlock {
    /// The identifier the engine was given.
    pub identifier: Arc<str>,
    /// Item start minus block start, in tokens: negative when the item began earlier.
    pub offset: i64,
}

/// News about one rank's block table, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvUpdate {
    /// Global data-parallel rank.
    pub rank: u32,
    /// What happened.
    pub news: KvNews,
}

/// What happened to one rank's block table, or to our knowledge of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvNews {
    /// Changes that follow, without a gap, on what was told before.
    Events(Vec<KvEvent>),
    /// Continuity cannot be proven: forget every block of the rank. What follows is true and may be incomplete.
    Partial(String),
    /// A whole table may have missed something since, and it is being found out: nothing is to be forgotten yet. `Complete`
    /// follows when nothing was missed, `Partial` when that cannot be proven.
    Unproven,
    /// From here on the table is whole: history was proven from its start, or it is known to be empty.
    Complete,
    /// Counters of the feed, for metrics; totals since the connection.
    Counters(KvCounters),
    /// The events cannot identify media blocks on this rank, and why.
    MediaInexact(String),
    /// The events do not say all that decides what the engine finds cached on this rank, and why: they are no measure of
    /// what it reports.
    NotCompared(String),
}

/// What a feed has counted since the connection was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KvCounters {
    /// Batches applied.
    pub batches: u64,
    /// Gaps seen in the sequence.
    pub gaps: u64,
    /// Replays asked for.
    pub replays: u64,
    /// Batches seen again and dropped.
    pub duplicates: u64,
    /// Batches or events that could not be read and were dropped.
    pub unreadable: u64,
    /// Events left out on purpose: groups that hold no whole prefix, partial or remote blocks, unknown kinds.
    pub skipped: u64,
    /// Publisher restarts seen.
    pub restarts: u64,
}
