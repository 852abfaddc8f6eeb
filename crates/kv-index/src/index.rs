//! The prefix index: which holder has how many leading blocks of a prompt.
//!
//! Blocks that follow one another and have the same holders form a *run*. A table knows the first block of each run; a
//! run knows the chain hash of its last block, so one comparison matches a whole run, and a look-up costs a hop per run
//! and not a step per block. The engine's names of blocks are needed only to apply its events.
//!
//! Readers take no lock: they copy a run and check that the copy is of one moment. One writer at a time changes runs.
//! Everything a reader looks at is atomic, and stays where it is for the life of the index.
//!
//! What the modules must not do: know tokens, clocks or engines. Identity is computed by the caller.

mod add;
mod arena;
mod bucket;
mod budget;
mod chunks;
mod copies;
mod cover;
mod extent;
mod extras;
mod filter;
mod find;
mod heads;
mod hold;
mod line;
mod names;
mod private;
mod remove;
mod seq;
mod shape;
mod state;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use state::{Edit, Shared, State};
use store::name_of;

/// The smallest bound an index can keep, in bytes.
pub const BYTES_MIN: usize = 1 << 20;

/// One set of blocks in the index: a tier of a target. Numbers are used again after removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder(u32);

impl Holder {
    /// Its number: below the most holders there ever were at one time.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// One block as the index sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Our identity of the block and everything before it.
    pub chain: u64,
    /// The engine's name for it.
    pub engine: u64,
}

/// How large an index may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexConfig {
    /// Bytes of all allocations together; at least [`BYTES_MIN`], to which less is raised.
    pub bytes_max: usize,
}

/// Sizes of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexStats {
    /// Allocated bytes.
    pub bytes: usize,
    /// Distinct blocks.
    pub blocks: u64,
    /// Pairs of a block and a holder.
    pub memberships: u64,
    /// Runs of blocks.
    pub runs: usize,
    /// Sets of holders that agree on names: 1 if all do.
    pub domains: usize,
    /// Holders whose engine has names of its own.
    pub private_holders: usize,
    /// Blocks evicted to keep the bound, since the start.
    pub evicted: u64,
}

/// The parent of the blocks to be stored is known to no holder that uses the same names; nothing was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownParent;

impl fmt::Display for UnknownParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the parent of the blocks is unknown")
    }
}

impl std::error::Error for UnknownParent {}

/// Shared by everyone: look-ups never wait for each other or, but for rare clashes, for the writer.
///
/// Within one engine a name means one block, and a block has one name: the newest pairing wins, and the block that lost
/// its name is no longer held. Engines are assumed to agree on names until one is seen to differ; from then on that
/// engine has a table of its own, until it has no blocks left.
pub struct Index {
    shared: Shared,
    state: Mutex<State>,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("stats", &self.stats()).finish()
    }
}

impl Index {
    /// An empty index.
    pub fn new(config: IndexConfig) -> Self {
        let (shared, state) = state::build(config.bytes_max.max(BYTES_MIN));
        Self { shared, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `change` if `holder` is one.
    fn edit<T>(&self, holder: Holder, change: impl FnOnce(&mut Edit<'_>, u32) -> T) -> Option<T> {
        let mut state = self.lock();
        let known = state.lanes.get(holder.0 as usize).is_some_and(|lane| lane.live);
        known.then(|| change(&mut Edit { shared: &self.shared, state: &mut state }, holder.0))
    }

    /// A new holder, of an engine that has none yet.
    pub fn add_holder(&self) -> Holder {
        let mut state = self.lock();
        Holder(Edit { shared: &self.shared, state: &mut state }.add_holder(None))
    }

    /// A new holder of the engine that `sibling` is of, such as another tier: both use the same names.
    pub(crate) fn add_holder_beside(&self, sibling: Holder) -> Holder {
        self.edit(sibling, |edit, sibling| Holder(edit.add_holder(Some(sibling))))
            .unwrap_or_else(|| self.add_holder())
    }

    /// Forgets a holder and its blocks; its number is used again.
    pub(crate) fn remove_holder(&self, holder: Holder) {
        self.edit(holder, |edit, holder| {
            edit.remove_holder(holder);
        });
    }

    /// Our identity of the block that the engine of `holder` calls `engine`. The holder need not have it: names are
    /// known while a holder with the same names has the block or, in the shared domain, one after it in its run.
    pub(crate) fn chain_of(&self, holder: Holder, engine: u64) -> Option<u64> {
        self.edit(holder, |edit, holder| edit.chain_of(holder, name_of(engine))).flatten()
    }

    /// The same, known only while a holder of that engine has the block itself.
    pub(crate) fn held_chain_of(&self, holder: Holder, engine: u64) -> Option<u64> {
        self.edit(holder, |edit, holder| edit.held_chain_of(holder, name_of(engine))).flatten()
    }

    /// `holder` has `blocks`, in order, the first a child of `parent`. What it has already by these names it has once more:
    /// [`Self::remove`] must be told of each copy. Blocks that did not fit under the bound are left out, and copies are not
    /// counted; then [`Self::take_evicted`] names the holder.
    pub fn store(&self, holder: Holder, parent: Option<u64>, blocks: &[Block]) -> Result<(), UnknownParent> {
        self.edit(holder, |edit, holder| edit.store(holder, parent, blocks)).unwrap_or(Ok(()))
    }

    /// `holder` has the blocks that another holder of its engine has by these names, or one copy more of them. Returns how
    /// many of the names stand for nothing. Blocks that do not fit under the bound are left out; then [`Self::take_evicted`] names the holder.
    pub(crate) fn copy(&self, holder: Holder, engines: &[u64]) -> usize {
        self.edit(holder, |edit, holder| edit.copy(holder, engines)).unwrap_or(0)
    }

    /// `holder` has one copy less of each block its engine calls so, and loses those of which it was the last. Unknown names
    /// are no mistake.
    pub fn remove(&self, holder: Holder, engines: &[u64]) {
        self.edit(holder, |edit, holder| edit.remove(holder, engines));
    }

    /// `holder` has no blocks any more.
    pub fn clear(&self, holder: Holder) {
        self.edit(holder, |edit, holder| {
            edit.clear(holder);
        });
    }

    /// For every holder of the first block: how many of the leading blocks it has. Takes no lock.
    pub fn find(&self, chain: &[u64], mut report: impl FnMut(Holder, u32)) {
        self.shared.find(&self.state, chain, |holder, blocks| report(Holder(holder), blocks));
    }

    /// How many blocks from `chain[from]` on, without a gap, `holder` has. Takes no lock.
    pub(crate) fn run_from(&self, holder: Holder, chain: &[u64], from: usize) -> usize {
        self.shared.run_from(&self.state, holder.0, chain, from)
    }

    /// Blocks that `holder` has.
    pub fn blocks(&self, holder: Holder) -> u64 {
        self.edit(holder, |edit, holder| edit.state.lanes[holder as usize].blocks).unwrap_or(0)
    }

    /// Holders that lost blocks to the bound since the last call, each once.
    pub fn take_evicted(&self) -> Vec<Holder> {
        let mut state = self.lock();
        let evicted: Vec<u32> = state.evicted.drain(..).collect();
        for &holder in &evicted {
            state.lanes[holder as usize].evicted = false;
        }
        evicted.into_iter().map(Holder).collect()
    }

    /// Sizes, of one moment.
    pub fn stats(&self) -> IndexStats {
        let state = self.lock();
        let private = || state.groups.iter().filter(|group| group.private.is_some());
        IndexStats {
            bytes: state.budget.bytes(),
            blocks: state.blocks,
            memberships: state.memberships,
            runs: state.runs,
            domains: 1 + private().count(),
            private_holders: private().map(|group| group.lanes.len()).sum(),
            evicted: state.evicted_blocks,
        }
    }
}
