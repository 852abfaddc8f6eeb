//! What the router would know of the workers' caches: the real index, fed by events.

use std::collections::BTreeMap;

use tito_engine_sim::{self as sim, BlockHash};
use tito_kv_index::{Hasher, Holder, Index, IndexConfig, Table};
use tito_types::{EngineHash, KvEvent, StoredBlocks, Tier};

use crate::ReplayConfig;
use crate::prompts::hasher;

/// The index and one table per worker.
pub(crate) struct Residency {
    index: Index,
    hasher: Hasher,
    tables: Vec<Table>,
    lanes: BTreeMap<Holder, u32>,
}

impl Residency {
    pub(crate) fn new(config: &ReplayConfig) -> Self {
        let table = || Table::new(config.engine.block_tokens);
        Self {
            index: Index::new(IndexConfig { bytes_max: config.index_bytes_max }),
            hasher: hasher(config.seed),
            tables: (0..config.workers).map(|_| table()).collect(),
            lanes: BTreeMap::new(),
        }
    }

    pub(crate) fn apply(&mut self, worker: u32, events: &[KvEvent]) {
        let table = &mut self.tables[worker as usize];
        for event in events {
            table.apply(&self.index, &self.hasher, event);
        }
        for (holder, _) in table.holders() {
            self.lanes.insert(holder, worker);
        }
    }

    /// Drops all that is known of a worker. Later events count again.
    pub(crate) fn forget(&mut self, worker: u32) {
        self.tables[worker as usize].reset(&self.index);
    }

    /// Workers that hold leading blocks, and how many.
    pub(crate) fn find(&self, chain: &[u64], mut report: impl FnMut(u32, u32)) {
        self.index.find(chain, |holder, blocks| {
            if let Some(worker) = self.lanes.get(&holder) {
                report(*worker, blocks);
            }
        });
    }
}

/// A simulated engine's events as the adapter would deliver them.
pub(crate) fn events(step: &[sim::KvEvent], block_tokens: u32) -> Vec<KvEvent> {
    let name = |hash: &BlockHash| EngineHash(hash.0);
    let convert = |event: &sim::KvEvent| match event {
        sim::KvEvent::Stored(stored) => KvEvent::Stored(StoredBlocks {
            parent: stored.parent.as_ref().map(name),
            hashes: stored.blocks.iter().map(name).collect(),
            tokens: stored.token_ids.clone(),
            block_tokens,
            tier: Tier::Gpu,
            adapter: None,
            adapter_id: None,
            salt: None,
            extras: Vec::new(),
        }),
        sim::KvEvent::Removed(hashes) => {
            KvEvent::Removed { hashes: hashes.iter().map(name).collect(), tier: Tier::Gpu }
        }
        sim::KvEvent::Cleared => KvEvent::Cleared,
    };
    step.iter().map(convert).collect()
}
