//! One (worker, rank) and what is known of its block table. Knows nothing of how the news arrives.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tito_kv_index::{Applied, Generations, Table, TierOverlap};
use tito_types::{
    EngineInfo, EngineLoad, IndexReport, KvEvent, KvNews, KvSupport, StoredBlocks, Tier, WorkerId,
};

use tokio::time::Instant;

use crate::metrics::TargetMetrics;
use crate::{Blocks, FleetMetrics};

mod clears;
mod known;
mod load;

use clears::Clears;
use known::{Known, KvState};
use load::Said;
pub use load::{LOAD_HOLDS, ToldLoad};

/// Names one rank of one engine instance; never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(pub u64);

/// One (worker, rank) of one engine instance. Requests are routed to it, blocks are held by it.
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub id: TargetId,
    /// The worker it belongs to.
    pub worker: WorkerId,
    /// Global data-parallel rank.
    pub rank: u32,
    /// KV room, in tokens: the worker's blocks divided by its local ranks.
    pub capacity_tokens: u64,
    known: Mutex<Known>,
    load: Mutex<Said>,
    metrics: TargetMetrics,
    /// A copy of the table's: its lock may be held for the whole of a batch.
    generations: Mutex<Arc<Generations>>,
    // Read for every request, without the lock.
    block_tokens: AtomicU32,
    complete: AtomicBool,
    media_exact: AtomicBool,
    media_inexact: AtomicBool,
    not_compared: AtomicBool,
    lower_tiers: AtomicBool,
    emptied: AtomicU64,
}

impl Target {
    /// One target per rank behind an engine, by rank. They are told when the index gives up blocks of theirs.
    pub fn of_engine(
        blocks: &Blocks,
        worker: &WorkerId,
        info: &EngineInfo,
        metrics: &FleetMetrics,
    ) -> Vec<Arc<Self>> {
        let ranks = info.identity.parallelism.local_ranks();
        let target = |rank| {
            let target = Arc::new(Self::new(blocks, worker, rank, info, metrics.target(worker, rank)));
            blocks.add(&target);
            target
        };
        ranks.map(target).collect()
    }

    fn new(blocks: &Blocks, worker: &WorkerId, rank: u32, info: &EngineInfo, metrics: TargetMetrics) -> Self {
        let state = match &info.kv_events {
            KvSupport::Off(reason) => KvState::Off(reason.clone()),
            KvSupport::On { .. } => KvState::Partial("its history was not read yet".to_owned()),
        };
        metrics.complete(false);
        metrics.blocks([0; 3]);
        let block_tokens = info.identity.kv_block_size;
        let known = Known::new(Table::new(block_tokens), state);
        Self {
            id: blocks.next_target(),
            worker: worker.clone(),
            rank,
            capacity_tokens: info.identity.rank_tokens(),
            generations: Mutex::new(Arc::clone(known.table.generations())),
            known: Mutex::new(known),
            load: Mutex::default(),
            metrics,
            block_tokens: AtomicU32::new(block_tokens),
            complete: AtomicBool::new(false),
            media_exact: AtomicBool::new(false),
            media_inexact: AtomicBool::new(false),
            not_compared: AtomicBool::new(false),
            lower_tiers: AtomicBool::new(false),
            emptied: AtomicU64::new(0),
        }
    }

    /// Tokens per indexed block.
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens.load(Ordering::Relaxed)
    }

    /// Whether all of its block table is known.
    pub fn complete(&self) -> bool {
        self.complete.load(Ordering::Relaxed)
    }

    /// Whether its news have shown that they identify blocks that hold media. Before that it holds none.
    pub fn media_exact(&self) -> bool {
        self.media_exact.load(Ordering::Relaxed)
    }

    /// Whether its news cannot identify blocks that hold media.
    pub fn media_inexact(&self) -> bool {
        self.media_inexact.load(Ordering::Relaxed)
    }

    /// Whether its news are no measure of the cached tokens that its engine reports.
    pub fn not_compared(&self) -> bool {
        self.not_compared.load(Ordering::Relaxed)
    }

    /// Whether it holds blocks outside device memory.
    pub fn lower_tiers(&self) -> bool {
        self.lower_tiers.load(Ordering::Relaxed)
    }

    /// Leading blocks of a prompt it holds, by tier. None while its news are being booked: requests do not wait for them.
    pub fn try_overlap(&self, blocks: &Blocks, chain: &[u64]) -> Option<TierOverlap> {
        let known = match self.known.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(known.table.overlap(blocks.index(), chain))
    }

    /// How often everything it held was forgotten: what was found before is no promise after.
    pub fn emptied(&self) -> u64 {
        self.emptied.load(Ordering::Acquire)
    }

    /// The engine dropped its blocks at our command, and is held until this is booked. It says so with its next step
    /// only: what it stored before, and is told after, is gone.
    pub(crate) fn cleared(&self, blocks: &Blocks) {
        self.commanded(blocks, |known, _| known.begin_again());
    }

    /// The engine was told to drop its blocks, and nobody knows whether it did.
    pub(crate) fn doubted(&self, blocks: &Blocks) {
        let reason = "whether it dropped its blocks at our command is not known";
        self.commanded(blocks, |known, metrics| known.lose(metrics, reason));
    }

    fn commanded(&self, blocks: &Blocks, book: impl FnOnce(&mut Known, &TargetMetrics)) {
        let mut known = self.known();
        // One that tells nothing never says so, and one that is gone has a successor that shows itself under its name.
        if !matches!(known.state, KvState::Off(_)) {
            known.clears.owe();
            self.empty(&mut known, blocks);
            book(&mut known, &self.metrics);
            self.show(blocks, &mut known);
        }
    }

    /// An adapter was loaded again under its name: what its old weights stored is never matched again.
    pub fn adapter_reloaded(&self, blocks: &Blocks, name: &str) {
        let mut known = self.known();
        known.table.adapter_reloaded(name);
        self.show(blocks, &mut known);
    }

    /// An adapter is loaded under this number of the engine's; a greater one than before is a reload.
    pub fn adapter_loaded(&self, blocks: &Blocks, name: &str, id: u64) {
        let mut known = self.known();
        known.table.adapter_loaded(name, id);
        self.show(blocks, &mut known);
    }

    /// How often each adapter was loaded again, as this target's blocks know it.
    pub fn generations(&self) -> Arc<Generations> {
        Arc::clone(&self.generations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What its engine says it has to do, or why that is not known.
    pub fn tell_load(&self, load: Result<EngineLoad, &str>) {
        self.load.lock().unwrap_or_else(PoisonError::into_inner).book(load);
    }

    /// What its engine last said that it has to do, for as long as that holds.
    pub fn told_load(&self) -> Option<ToldLoad> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner).latest()
    }

    /// Why it is not known what its engine has to do, where it was asked.
    pub fn load_problem(&self) -> Option<String> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    /// What an operator sees.
    pub fn report(&self) -> IndexReport {
        let known = self.known();
        let state = known.shown();
        IndexReport {
            state: state.word(),
            reason: state.reason().map(str::to_owned),
            block_tokens: self.block_tokens(),
            blocks: known.blocks,
            media: known.media(),
            media_inexact: known.media_inexact.clone(),
            not_compared: known.not_compared().map(str::to_owned),
            counters: known.counters,
        }
    }

    /// Books news of its rank, in the order they came.
    pub fn apply(&self, blocks: &Blocks, news: KvNews) {
        let mut known = self.known();
        match news {
            KvNews::Events(events) => {
                for event in &events {
                    self.book(&mut known, blocks, event);
                }
            }
            KvNews::Partial(reason) => {
                self.empty(&mut known, blocks);
                known.proven = false;
                known.lost = None;
                known.partial(&self.metrics, reason);
            }
            KvNews::Unproven => known.unproven(),
            KvNews::Complete => {
                known.proven = true;
                known.whole_if_proven();
            }
            KvNews::Counters(counters) => {
                self.metrics.counters(known.counters, counters);
                known.counters = counters;
            }
            KvNews::MediaInexact(reason) => known.media_inexact = Some(reason),
            KvNews::NotCompared(reason) => known.not_compared = Some(reason),
        }
        self.show(blocks, &mut known);
    }

    fn book(&self, known: &mut Known, blocks: &Blocks, event: &KvEvent) {
        if let KvEvent::Stored(stored) = event {
            known.media_shown |= stored.extras.iter().any(|extras| !extras.media.is_empty());
        }
        match event {
            KvEvent::Stored(StoredBlocks { hashes, .. }) | KvEvent::Copied { hashes, .. }
                if known.clears.owing() =>
            {
                self.metrics.applied(&Applied { skipped: hashes.len() as u64, ..Applied::default() });
                if known.clears.overdue(Instant::now()) {
                    known.clears.forgive();
                    known.lose(&self.metrics, "it never said that it dropped its blocks at our command");
                }
            }
            KvEvent::Stored(StoredBlocks { tier, .. }) | KvEvent::Copied { tier, .. } => {
                // Whose blocks they are is known before they can be found or given up.
                if known.table.open(blocks.index(), *tier) {
                    blocks.remember(self.id, known.table.holders());
                }
                let applied = known.table.apply(blocks.index(), blocks.hasher(), event);
                if applied.reset {
                    self.note_emptied(blocks);
                    known.lose(&self.metrics, "its block size changed");
                }
                if applied.orphaned > 0 {
                    if *tier == Tier::Gpu {
                        known.lose(&self.metrics, "blocks were stored after one that is not known");
                    } else {
                        // They may be what device memory has dropped.
                        known.unknown_below = true;
                    }
                }
                self.metrics.applied(&applied);
            }
            KvEvent::Removed { .. } => {
                let applied = known.table.apply(blocks.index(), blocks.hasher(), event);
                self.metrics.applied(&applied);
            }
            KvEvent::Cleared => {
                // What it owed the word for was emptied when it was commanded, and nothing was believed since.
                if !known.clears.tell() {
                    self.empty(known, blocks);
                }
                known.begin_again();
            }
        }
    }

    /// Forgets every block.
    fn empty(&self, known: &mut Known, blocks: &Blocks) {
        known.table.reset(blocks.index());
        known.unknown_below = false;
        self.note_emptied(blocks);
    }

    fn note_emptied(&self, blocks: &Blocks) {
        // In this order: who finds the first unchanged finds the second one changed later.
        blocks.note_emptied();
        self.emptied.fetch_add(1, Ordering::Release);
    }

    /// The index gave up some of its blocks for want of room.
    pub(crate) fn evicted(&self, blocks: &Blocks) {
        let mut known = self.known();
        known.lose(&self.metrics, "the index is at its byte bound");
        self.show(blocks, &mut known);
    }

    /// Forgets everything, for good.
    pub(crate) fn close(&self, blocks: &Blocks) {
        let mut known = self.known();
        blocks.forget(self.id);
        known.table.close(blocks.index());
        known.state = KvState::Off("not connected".to_owned());
        self.complete.store(false, Ordering::Relaxed);
        self.metrics.complete(false);
        self.metrics.blocks([0; 3]);
    }

    /// Lets readers and metrics see what changed.
    fn show(&self, blocks: &Blocks, known: &mut Known) {
        let held = known.table.blocks(blocks.index());
        known.blocks = held;
        self.metrics.blocks(held);
        let (size, media_inexact) = (known.table.block_tokens(), known.media_inexact.is_some());
        let lower = held[1..].iter().any(|&count| count > 0);
        let size_changed = self.block_tokens.swap(size, Ordering::Relaxed) != size;
        self.media_exact.store(known.media_shown && !media_inexact, Ordering::Relaxed);
        let media_changed = self.media_inexact.swap(media_inexact, Ordering::Relaxed) != media_inexact;
        self.not_compared.store(known.not_compared().is_some(), Ordering::Relaxed);
        self.lower_tiers.store(lower, Ordering::Relaxed);
        let reloaded = self.show_generations(&known.table);
        let complete = known.complete();
        let completeness_changed = self.complete.swap(complete, Ordering::Relaxed) != complete;
        self.metrics.complete(complete);
        if size_changed || media_changed || completeness_changed || reloaded {
            blocks.reshaped();
        }
    }

    /// Whether an adapter was loaded again.
    fn show_generations(&self, table: &Table) -> bool {
        let mut shown = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = !Arc::ptr_eq(&shown, table.generations());
        if changed {
            *shown = Arc::clone(table.generations());
        }
        changed
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The word of a tier in metrics and lists.
pub(crate) fn tier_word(tier: Tier) -> &'static str {
    match tier {
        Tier::Gpu => "gpu",
        Tier::Cpu => "cpu",
        Tier::Storage => "storage",
    }
}

#[cfg(test)]
pub(crate) mod tests;
