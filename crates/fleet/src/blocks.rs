//! What every target holds, as one index. Knows nothing of connections or routing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use prometheus_client::registry::Registry;
use tito_kv_index::{Hasher, Holder, Index, IndexConfig, IndexStats};
use tito_types::Tier;

use crate::metrics::IndexCollector;
use crate::{Target, TargetId};

/// A map that every request looks into, where the order of its entries decides nothing.
#[expect(clippy::disallowed_types, reason = "looked up by key only: no order can leak")]
type Lookup<K, V> = std::collections::HashMap<K, V>;

/// Whose each lane is, by the lane's number.
type Lanes = Vec<Option<(TargetId, Tier)>>;

/// Where the leading blocks of any prompt are. Written by the feeds, read for every request.
#[derive(Debug)]
pub struct Blocks {
    index: Index,
    /// Its bound, in bytes.
    bytes_max: usize,
    hasher: Hasher,
    /// Whose lanes of the index are whose. Written when a target first uses a tier, and when it goes.
    lanes: RwLock<Lanes>,
    /// Who must hear when the index gives up blocks.
    targets: Mutex<Lookup<TargetId, Weak<Target>>>,
    next_target: AtomicU64,
    shape: AtomicU64,
    emptied: AtomicU64,
}

impl Blocks {
    /// An empty index. `secret` keys the block identities: known to nobody else, so that nobody can make collisions.
    pub fn new(config: IndexConfig, secret: u128) -> Self {
        Self {
            bytes_max: config.bytes_max,
            index: Index::new(config),
            hasher: Hasher::new(secret),
            lanes: RwLock::default(),
            targets: Mutex::default(),
            next_target: AtomicU64::new(0),
            shape: AtomicU64::new(0),
            emptied: AtomicU64::new(0),
        }
    }

    /// Shows its sizes among the metrics; the caller passes the registry for `fleet_…`.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        registry.register_collector(Box::new(IndexCollector(Arc::clone(self))));
    }

    /// Brings prompts to the identity the index knows.
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Every target that holds the first block, once per tier it holds it on, with the leading blocks it holds there.
    pub fn find(&self, chain: &[u64], mut report: impl FnMut(TargetId, Tier, u32)) {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        self.index.find(chain, |holder, held| {
            if let Some((target, tier)) = owner(&lanes, holder) {
                report(target, tier, held);
            }
        });
    }

    /// Grows whenever a target's completeness, block size, grasp of media or loads of adapters changed.
    pub fn shape_version(&self) -> u64 {
        self.shape.load(Ordering::Acquire)
    }

    /// How often any target was emptied. What was found before it changed may not be there.
    pub fn emptied(&self) -> u64 {
        self.emptied.load(Ordering::Acquire)
    }

    pub(crate) fn note_emptied(&self) {
        self.emptied.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn reshaped(&self) {
        self.shape.fetch_add(1, Ordering::Release);
    }

    /// Sizes.
    pub fn stats(&self) -> IndexStats {
        self.index.stats()
    }

    /// The bound of the index, in bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    pub(crate) fn next_target(&self) -> TargetId {
        TargetId(self.next_target.fetch_add(1, Ordering::Relaxed))
    }

    /// Books the lanes a target uses now.
    pub(crate) fn remember(&self, target: TargetId, holders: impl Iterator<Item = (Holder, Tier)>) {
        for (holder, tier) in holders {
            let known = owner(&self.lanes.read().unwrap_or_else(PoisonError::into_inner), holder);
            if known != Some((target, tier)) {
                let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
                let length = lanes.len().max(holder.number() + 1);
                lanes.resize(length, None);
                lanes[holder.number()] = Some((target, tier));
            }
        }
    }

    /// Whoever is added here hears when the index gives up blocks of its.
    pub(crate) fn add(&self, target: &Arc<Target>) {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.insert(target.id, Arc::downgrade(target));
    }

    pub(crate) fn forget(&self, target: TargetId) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes.iter_mut().filter(|lane| lane.is_some_and(|(owner, _)| owner == target)) {
            *lane = None;
        }
        drop(lanes);
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).remove(&target);
    }

    /// Tells the targets that lost blocks to the byte bound since the last call.
    pub(crate) fn tell_evicted(&self) {
        let holders = self.index.take_evicted();
        if holders.is_empty() {
            return;
        }
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        let lost: Vec<_> = holders.iter().filter_map(|holder| Some(owner(&lanes, *holder)?.0)).collect();
        drop(lanes);
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let lost: Vec<_> = lost.iter().filter_map(|id| targets.get(id)?.upgrade()).collect();
        drop(targets);
        for target in lost {
            target.evicted(self);
        }
    }
}

fn owner(lanes: &Lanes, holder: Holder) -> Option<(TargetId, Tier)> {
    lanes.get(holder.number()).copied().flatten()
}
