//! One target's part of the index: brings its engine's events to our identity, one lane per tier.
//!
//! It must not know how events arrive, and it never asks whether they are complete: [`crate::Cursor`] does.

use std::collections::BTreeMap;
use std::sync::Arc;

use tito_types::{BlockExtras, EngineHash, KvEvent, StoredBlocks, Tier};

use crate::{Block, Hasher, Holder, Index};

const TIERS: [Tier; 3] = [Tier::Gpu, Tier::Cpu, Tier::Storage];

mod generations;

pub use generations::Generations;

/// Adapters whose loads are known per target. Beyond it counting starts over above every earlier count, so that all
/// adapters start cold once and none is warm by mistake.
const ADAPTERS_MAX: usize = 4096;

/// What became of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Blocks stored, known before or not.
    pub stored: u64,
    /// Names removed, known or not.
    pub removed: u64,
    /// Blocks dropped because nothing is known of their parent or, of a copy, of its name.
    pub orphaned: u64,
    /// Blocks dropped because the event contradicts itself or they are partial.
    pub skipped: u64,
    /// The engine's block size is another one now: everything before was forgotten.
    pub reset: bool,
}

/// What taking over another block size cost.
#[derive(Debug, Clone, Copy, Default)]
struct Resized {
    /// What was known is forgotten.
    reset: bool,
    /// Blocks that turned out not to be full.
    skipped: u64,
}

/// Leading blocks of a prompt on one target. Each tier continues where the one before ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierOverlap {
    /// In device memory.
    pub gpu: usize,
    /// In host memory.
    pub cpu: usize,
    /// On disk or in a shared store.
    pub storage: usize,
}

/// How sure the block size is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    /// As announced: no event has shown it.
    Announced,
    /// All that was stored are single blocks, shorter than announced, that nothing continued: the engine's blocks are finer
    /// than it says, or these are not full yet.
    Guessed { announced: u32 },
    /// An event has shown it.
    Seen,
}

/// One target's lanes of the index. It does not give them back by itself: see [`Table::close`].
#[derive(Debug)]
pub struct Table {
    /// By tier; made when a tier is first used.
    lanes: [Option<Holder>; 3],
    block_tokens: u32,
    size: Size,
    generations: Arc<Generations>,
    /// The latest load of each adapter, by the engine's number for it.
    loads: BTreeMap<Arc<str>, u64>,
}

impl Table {
    /// An empty table of an engine that says its blocks have `block_tokens` tokens. Its events may be finer.
    pub fn new(block_tokens: u32) -> Self {
        Self {
            lanes: [None; 3],
            block_tokens,
            size: Size::Announced,
            generations: Arc::default(),
            loads: BTreeMap::new(),
        }
    }

    /// Tokens per block, as the latest event has it.
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// The lanes in use.
    pub fn holders(&self) -> impl Iterator<Item = (Holder, Tier)> + '_ {
        self.lanes.iter().zip(TIERS).filter_map(|(lane, tier)| Some(((*lane)?, tier)))
    }

    /// Blocks held in device memory, host memory and storage.
    pub fn blocks(&self, index: &Index) -> [u64; 3] {
        self.lanes.map(|lane| lane.map_or(0, |holder| index.blocks(holder)))
    }

    /// An adapter was loaded again: what was stored under its name before is never matched again.
    pub fn adapter_reloaded(&mut self, name: &str) {
        Arc::make_mut(&mut self.generations).reload(name);
    }

    /// An adapter is loaded under this number of the engine's. The first one seen is generation 0; a greater one is a
    /// reload. False when it is an earlier load than one that was seen already.
    pub fn adapter_loaded(&mut self, name: &str, id: u64) -> bool {
        match self.loads.get_mut(name) {
            Some(known) if id <= *known => return id == *known,
            Some(known) => {
                *known = id;
                self.adapter_reloaded(name);
            }
            None => {
                if self.loads.len() >= ADAPTERS_MAX {
                    self.loads.clear();
                    Arc::make_mut(&mut self.generations).start_over();
                }
                self.loads.insert(name.into(), id);
            }
        }
        true
    }

    /// The generation of every adapter: another value after every reload.
    pub fn generations(&self) -> &Arc<Generations> {
        &self.generations
    }

    /// Books one event. A block that is stored twice is held until it is removed twice, as engines tell of each copy.
    pub fn apply(&mut self, index: &Index, hasher: &Hasher, event: &KvEvent) -> Applied {
        match event {
            KvEvent::Stored(stored) => self.store(index, hasher, stored),
            KvEvent::Copied { hashes, tier } => {
                let holder = self.lane(index, *tier);
                let names: Vec<u64> = hashes.iter().map(|hash| hash.0).collect();
                let unknown = index.copy(holder, &names) as u64;
                Applied { stored: hashes.len() as u64 - unknown, orphaned: unknown, ..Applied::default() }
            }
            KvEvent::Removed { hashes, tier } => {
                if let Some(holder) = self.lanes[lane(*tier)] {
                    let names: Vec<u64> = hashes.iter().map(|hash| hash.0).collect();
                    index.remove(holder, &names);
                }
                Applied { removed: hashes.len() as u64, ..Applied::default() }
            }
            KvEvent::Cleared => {
                self.reset(index);
                Applied::default()
            }
        }
    }

    /// Whether the events so far leave open how many tokens a block has: what was stored may not be all, or not be full.
    pub fn guessing(&self) -> bool {
        matches!(self.size, Size::Guessed { .. })
    }

    /// Forgets every block, and what was guessed from them.
    pub fn reset(&mut self, index: &Index) {
        if let Size::Guessed { announced } = self.size {
            (self.block_tokens, self.size) = (announced, Size::Announced);
        }
        for (holder, _) in self.holders() {
            index.clear(holder);
        }
    }

    /// Gives the lanes back. The table is as new.
    pub fn close(&mut self, index: &Index) {
        for (holder, _) in self.holders() {
            index.remove_holder(holder);
        }
        self.lanes = [None; 3];
    }

    /// Leading blocks of a prompt, tier after tier.
    pub fn overlap(&self, index: &Index, chain: &[u64]) -> TierOverlap {
        let mut from = 0;
        let [gpu, cpu, storage] = self.lanes.map(|lane| {
            let run = lane.map_or(0, |holder| index.run_from(holder, chain, from));
            from += run;
            run
        });
        TierOverlap { gpu, cpu, storage }
    }

    fn store(&mut self, index: &Index, hasher: &Hasher, stored: &StoredBlocks) -> Applied {
        let (blocks, size) = (stored.hashes.len(), stored.block_tokens);
        let skipped = Applied { skipped: blocks as u64, ..Applied::default() };
        let whole = blocks.checked_mul(size as usize) == Some(stored.tokens.len());
        let extras_fit = stored.extras.is_empty() || stored.extras.len() == blocks;
        if blocks == 0 || size == 0 || !whole || !extras_fit {
            return skipped;
        }
        if let (Some(name), Some(id)) = (&stored.adapter, stored.adapter_id)
            && !self.adapter_loaded(name, id)
        {
            // A straggler of weights that were replaced since.
            return skipped;
        }
        let Some(Resized { reset, skipped }) = self.resize(index, stored) else { return skipped };
        let holder = self.lane(index, stored.tier);
        let Some(start) = self.start(index, hasher, holder, stored) else {
            return Applied { orphaned: blocks as u64, skipped, reset, ..Applied::default() };
        };
        if blocks > 1 || stored.parent.is_some() {
            self.size = Size::Seen;
        }
        let chain = match stored.tier {
            Tier::Gpu => chain(hasher, start, stored),
            Tier::Cpu | Tier::Storage => chain_below(index, holder, hasher, start, stored),
        };
        let names = stored.hashes.iter();
        let named: Vec<Block> =
            chain.iter().zip(names).map(|(&chain, name)| Block { chain, engine: name.0 }).collect();
        match index.store(holder, stored.parent.map(|parent| parent.0), &named) {
            Ok(()) => Applied { stored: blocks as u64, skipped, reset, ..Applied::default() },
            Err(_) => Applied { orphaned: blocks as u64, skipped, reset, ..Applied::default() },
        }
    }

    /// Takes over the block size of an event. `None` when its blocks are none of this table's.
    fn resize(&mut self, index: &Index, stored: &StoredBlocks) -> Option<Resized> {
        let size = stored.block_tokens;
        if size == self.block_tokens {
            if !self.guessing() {
                self.size = Size::Seen;
            }
            return Some(Resized::default());
        }
        let single = stored.hashes.len() == 1;
        // A lower tier with blocks of its own size cannot continue what device memory holds, and a block that is not full
        // yet comes again when it is.
        if stored.tier != Tier::Gpu || (single && size < self.block_tokens && self.size != Size::Announced) {
            return None;
        }
        let announced = match self.size {
            Size::Guessed { announced } => announced,
            Size::Announced | Size::Seen => self.block_tokens,
        };
        // What was guessed to be blocks was not full: it comes again, so nothing is lost.
        let unfilled = if self.guessing() && size > self.block_tokens { self.blocks(index)[0] } else { 0 };
        let reset = match self.size {
            Size::Announced => false,
            Size::Guessed { .. } => size < self.block_tokens,
            Size::Seen => true,
        };
        self.reset(index);
        self.block_tokens = size;
        self.size =
            if single && size < announced && !reset { Size::Guessed { announced } } else { Size::Seen };
        Some(Resized { reset, skipped: unfilled })
    }

    /// Opens the lane of a tier, so that its owner can be known before anything is stored in it. False if it was open.
    pub fn open(&mut self, index: &Index, tier: Tier) -> bool {
        let fresh = self.lanes[lane(tier)].is_none();
        self.lane(index, tier);
        fresh
    }

    /// The lane of a tier. All lanes of a target share the engine's names.
    fn lane(&mut self, index: &Index, tier: Tier) -> Holder {
        let sibling = self.holders().map(|(holder, _)| holder).next();
        let add = || sibling.map_or_else(|| index.add_holder(), |sibling| index.add_holder_beside(sibling));
        *self.lanes[lane(tier)].get_or_insert_with(add)
    }

    /// The identity that the first block follows.
    fn start(&self, index: &Index, hasher: &Hasher, holder: Holder, stored: &StoredBlocks) -> Option<u64> {
        let Some(EngineHash(parent)) = stored.parent else {
            let adapter = stored.adapter.as_deref().map(|name| (name, self.generations.of(name)));
            return Some(hasher.root(stored.block_tokens, adapter, stored.salt.as_deref()));
        };
        index.chain_of(holder, parent)
    }
}

/// The chain hash of every block of an event.
fn chain(hasher: &Hasher, start: u64, stored: &StoredBlocks) -> Vec<u64> {
    let size = stored.block_tokens as usize;
    let mut chain = Vec::with_capacity(stored.hashes.len());
    if stored.extras.iter().all(|extras| *extras == BlockExtras::default()) {
        hasher.extend(start, &stored.tokens, size, &mut chain);
        return chain;
    }
    let mut parent = start;
    for (tokens, extras) in stored.tokens.chunks_exact(size).zip(&stored.extras) {
        parent = hasher.block(parent, tokens, extras);
        chain.push(parent);
    }
    chain
}

/// The same for a lower tier, whose events leave out salts and media (vLLM 0.32): as long as the engine has a
/// block of that name, it is that block, so a name is never given to other content. Names of other engines do not count:
/// theirs may be of another load of an adapter.
fn chain_below(
    index: &Index,
    holder: Holder,
    hasher: &Hasher,
    start: u64,
    stored: &StoredBlocks,
) -> Vec<u64> {
    let plain = BlockExtras::default();
    let mut chain = Vec::with_capacity(stored.hashes.len());
    let (mut parent, mut named) = (start, true);
    let blocks = stored.tokens.chunks_exact(stored.block_tokens as usize).zip(&stored.hashes);
    for (at, (tokens, name)) in blocks.enumerate() {
        let known = if named { index.held_chain_of(holder, name.0) } else { None };
        named = known.is_some();
        let extras = stored.extras.get(at).unwrap_or(&plain);
        parent = known.unwrap_or_else(|| hasher.block(parent, tokens, extras));
        chain.push(parent);
    }
    chain
}

fn lane(tier: Tier) -> usize {
    match tier {
        Tier::Gpu => 0,
        Tier::Cpu => 1,
        Tier::Storage => 2,
    }
}

#[cfg(test)]
mod tests;
