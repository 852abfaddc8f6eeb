//! What `vllm.Control` changes: adapters, weights, pause and sleep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tito_engine_sim::{fold, hash_bytes};

#[cfg(test)]
mod tests;
mod weights;

pub(crate) use weights::{WeightError, Weights};

/// Adapters that may be loaded at once.
pub(crate) const ADAPTERS_MAX: usize = 4096;

/// A part of the engine that sleeps and wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asleep {
    Weights,
    KvCache,
    Scheduling,
}

impl Asleep {
    /// The part a tag of `WakeUp` names. Unknown tags are ignored.
    pub(crate) fn of_tag(tag: &str) -> Option<Self> {
        match tag {
            "weights" => Some(Self::Weights),
            "kv_cache" => Some(Self::KvCache),
            "scheduling" => Some(Self::Scheduling),
            _ => None,
        }
    }
}

/// An adapter that is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Adapter {
    /// Never used again.
    pub(crate) id: i64,
    pub(crate) source_path: String,
}

impl Adapter {
    /// What distinguishes its output and its cache from all others: as in vLLM 0.32, its name and its path.
    pub(crate) fn key_of(name: &str, source_path: &str) -> u64 {
        fold(hash_bytes(name.as_bytes()), hash_bytes(source_path.as_bytes()))
    }
}

/// State behind the control calls.
#[derive(Debug)]
pub(crate) struct ControlState {
    /// Calls that change the engine run one after the other, also when one of them waits long.
    pub(crate) serial: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) adapters: BTreeMap<String, Adapter>,
    next_adapter_id: i64,
    pub(crate) paused: bool,
    pub(crate) asleep: BTreeSet<Asleep>,
    pub(crate) weights: Weights,
}

impl State {
    /// Registers an adapter under the next id. `None` if there are as many as may be.
    pub(crate) fn load(&mut self, name: String, source_path: String) -> Option<Adapter> {
        if self.adapters.len() >= ADAPTERS_MAX {
            return None;
        }
        let adapter = Adapter { id: self.next_adapter_id, source_path };
        self.next_adapter_id += 1;
        self.adapters.insert(name, adapter.clone());
        Some(adapter)
    }
}

impl ControlState {
    /// The state at the start, with adapters of a name and a path each. There are no more of them than may be.
    pub(crate) fn new(adapters: &[(String, String)]) -> Self {
        let mut state = State {
            adapters: BTreeMap::new(),
            next_adapter_id: 1,
            paused: false,
            asleep: BTreeSet::new(),
            weights: Weights::new(),
        };
        for (name, source_path) in adapters.iter().take(ADAPTERS_MAX) {
            state.load(name.clone(), source_path.clone());
        }
        Self { serial: tokio::sync::Mutex::new(()), state: Mutex::new(state) }
    }

    /// The state, for a moment: nothing awaits while it is held.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
