use std::collections::BTreeMap;
use std::sync::Arc;

use super::ADAPTERS_MAX;

/// How often each adapter was loaded again on one target. Counted by name, so that targets that reloaded an adapter
/// equally often agree, in whatever order they did it.
#[derive(Debug, Clone, Default)]
pub struct Generations {
    /// Of those that were loaded again.
    reloaded: BTreeMap<Arc<str>, u64>,
    /// Of every other adapter.
    base: u64,
}

impl Generations {
    /// The generation of an adapter, for [`crate::Prompt::adapter`]; 0 until it was loaded again.
    pub fn of(&self, name: &str) -> u64 {
        self.reloaded.get(name).copied().unwrap_or(self.base)
    }

    /// The generation of adapters that were not loaded again.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The others, by name; at most 4096.
    pub fn reloaded(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.reloaded.iter().map(|(name, generation)| (name, *generation))
    }

    pub(super) fn reload(&mut self, name: &str) {
        if self.reloaded.len() >= ADAPTERS_MAX && !self.reloaded.contains_key(name) {
            self.start_over();
        } else {
            self.reloaded.insert(name.into(), self.of(name).saturating_add(1));
        }
    }

    /// All adapters start cold.
    pub(super) fn start_over(&mut self) {
        let highest = self.reloaded.values().copied().max().unwrap_or(0);
        self.base = highest.max(self.base).saturating_add(1);
        self.reloaded.clear();
    }
}
