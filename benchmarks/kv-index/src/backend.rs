//! What a structure must do to be measured, and our own index.
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dynamo_kv_router::protocols::*;
use tito_kv_index::{Block, Holder, Index, IndexConfig};

use crate::measure::cpu;
use crate::workload::{Change, Event, Load};

/// Readers of one structure.
pub trait Backend: Send + Sync + 'static {
    /// Holders found.
    fn find(&self, query: &[u64]) -> usize;
    fn scores(&self, query: &[u64]) -> HashMap<u32, u32>;
    fn writer(self: Arc<Self>) -> Box<dyn Writer>;
    /// Whether queries are chained hashes.
    fn chained(&self) -> bool {
        false
    }
    /// Whether several threads may read at once.
    fn shared(&self) -> bool {
        true
    }
    fn note(&self) -> String {
        String::new()
    }
}

/// The one writer of a structure.
pub trait Writer {
    /// CPU time of applying all events.
    fn apply(&mut self, events: Vec<RouterEvent>) -> Duration;
    fn clear(&mut self, worker: u32) -> Duration;
}

/// Events as they arrive from a bus.
pub fn wire(events: &[Event]) -> Vec<RouterEvent> {
    let event = |(id, event): (usize, &Event)| {
        let data = match &event.change {
            Change::Store { parent, blocks } => KvCacheEventData::Stored(KvCacheStoreData {
                parent_hash: parent.map(ExternalSequenceBlockHash),
                start_position: None,
                blocks: blocks
                    .iter()
                    .map(|block| KvCacheStoredBlockData {
                        block_hash: ExternalSequenceBlockHash(block.chain),
                        tokens_hash: LocalBlockHash(block.content),
                        mm_extra_info: None,
                    })
                    .collect(),
            }),
            Change::Remove(chains) => KvCacheEventData::Removed(KvCacheRemoveData {
                block_hashes: chains.iter().map(|&chain| ExternalSequenceBlockHash(chain)).collect(),
            }),
        };
        RouterEvent::new(u64::from(event.worker), KvCacheEvent { event_id: id as u64, data, dp_rank: 0 })
    };
    events.iter().enumerate().map(event).collect()
}

pub struct Tito {
    pub index: Index,
    pub holders: Vec<Holder>,
}

/// Engines have names of their own for blocks.
pub fn engine_name(chain: u64) -> u64 {
    chain.rotate_left(7) ^ 0x5555
}

impl Tito {
    pub fn new(load: &Load) -> Self {
        let index = Index::new(IndexConfig { bytes_max: 4 << 30 });
        let holders = (0..load.workers).map(|_| index.add_holder()).collect();
        Self { index, holders }
    }
}

impl Backend for Tito {
    fn find(&self, query: &[u64]) -> usize {
        let mut found = 0;
        self.index.find(query, |_, _| found += 1);
        found
    }
    fn scores(&self, query: &[u64]) -> HashMap<u32, u32> {
        let mut scores = HashMap::new();
        self.index.find(query, |holder, blocks| {
            let worker = self.holders.iter().position(|&other| other == holder).expect("a known holder");
            assert!(scores.insert(worker as u32, blocks).is_none(), "reported once");
        });
        scores
    }
    fn writer(self: Arc<Self>) -> Box<dyn Writer> {
        Box::new(TitoWriter(self))
    }
    fn chained(&self) -> bool {
        true
    }
    fn note(&self) -> String {
        format!("{:?}", self.index.stats())
    }
}

struct TitoWriter(Arc<Tito>);

impl Writer for TitoWriter {
    fn apply(&mut self, events: Vec<RouterEvent>) -> Duration {
        let start = cpu();
        let (mut blocks, mut names) = (Vec::new(), Vec::new());
        for event in events {
            let holder = self.0.holders[event.worker_id as usize];
            match event.event.data {
                KvCacheEventData::Stored(stored) => {
                    blocks.clear();
                    blocks.extend(stored.blocks.iter().map(|block| Block {
                        chain: block.block_hash.0,
                        engine: engine_name(block.block_hash.0),
                    }));
                    let parent = stored.parent_hash.map(|parent| engine_name(parent.0));
                    self.0.index.store(holder, parent, &blocks).expect("the parent is known");
                }
                KvCacheEventData::Removed(removed) => {
                    names.clear();
                    names.extend(removed.block_hashes.iter().map(|chain| engine_name(chain.0)));
                    self.0.index.remove(holder, &names);
                }
                KvCacheEventData::Cleared => self.0.index.clear(holder),
            }
        }
        cpu() - start
    }
    fn clear(&mut self, worker: u32) -> Duration {
        let start = cpu();
        self.0.index.clear(self.0.holders[worker as usize]);
        cpu() - start
    }
}
