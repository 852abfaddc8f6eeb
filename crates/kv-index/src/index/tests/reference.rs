//! What the index must say, computed the slow way: per engine a table of names, per holder a set of blocks.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::Block;

#[derive(Default, Clone)]
struct Engine {
    by_name: BTreeMap<u64, u64>,
    by_chain: BTreeMap<u64, u64>,
}

#[derive(Default, Clone)]
pub(super) struct Reference {
    engines: Vec<Engine>,
    /// Per holder: its engine, and its blocks with the number of their copies.
    holders: Vec<(usize, BTreeMap<u64, u32>)>,
}

impl Reference {
    pub(super) fn add_holder(&mut self, engine: usize) {
        while self.engines.len() <= engine {
            self.engines.push(Engine::default());
        }
        self.holders.push((engine, BTreeMap::new()));
    }

    pub(super) fn store(&mut self, holder: usize, blocks: &[Block]) {
        let engine = self.holders[holder].0;
        for block in blocks {
            if let Some(&other) = self.engines[engine].by_name.get(&block.engine)
                && other != block.chain
            {
                for held in self.holders.iter_mut().filter(|held| held.0 == engine) {
                    held.1.remove(&other);
                }
                self.engines[engine].by_chain.remove(&other);
            }
            if let Some(old) = self.engines[engine].by_chain.insert(block.chain, block.engine)
                && old != block.engine
            {
                self.engines[engine].by_name.remove(&old);
                // Copies go by their name: those of the old one are forgotten, and the block is held by the new one.
                let held = self.holders.iter_mut().filter(|held| held.0 == engine);
                held.filter_map(|held| held.1.get_mut(&block.chain)).for_each(|copies| *copies = 1);
                self.engines[engine].by_name.insert(block.engine, block.chain);
                self.holders[holder].1.insert(block.chain, 1);
                continue;
            }
            self.engines[engine].by_name.insert(block.engine, block.chain);
            *self.holders[holder].1.entry(block.chain).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, holder: usize, names: &[u64]) {
        for name in names {
            if let Some(&chain) = self.engines[self.holders[holder].0].by_name.get(name)
                && let Some(copies) = self.holders[holder].1.get_mut(&chain)
            {
                *copies -= 1;
                if *copies == 0 {
                    self.holders[holder].1.remove(&chain);
                    self.unname(holder, chain);
                }
            }
        }
    }

    fn unname(&mut self, holder: usize, chain: u64) {
        let engine = self.holders[holder].0;
        if !self.holders.iter().any(|held| held.0 == engine && held.1.contains_key(&chain))
            && let Some(name) = self.engines[engine].by_chain.remove(&chain)
        {
            self.engines[engine].by_name.remove(&name);
        }
    }

    pub(super) fn clear(&mut self, holder: usize) {
        for chain in std::mem::take(&mut self.holders[holder].1).into_keys() {
            self.unname(holder, chain);
        }
    }

    pub(super) fn chain_of(&self, holder: usize, name: u64) -> Option<u64> {
        self.engines[self.holders[holder].0].by_name.get(&name).copied()
    }

    pub(super) fn blocks(&self, holder: usize) -> BTreeSet<u64> {
        self.holders[holder].1.keys().copied().collect()
    }

    pub(super) fn name_of(&self, holder: usize, chain: u64) -> u64 {
        self.engines[self.holders[holder].0].by_chain[&chain]
    }

    pub(super) fn memberships(&self) -> u64 {
        self.holders.iter().map(|held| held.1.len() as u64).sum()
    }

    pub(super) fn run_from(&self, holder: usize, chain: &[u64], from: usize) -> usize {
        chain[from..].iter().take_while(|chain| self.holders[holder].1.contains_key(chain)).count()
    }

    /// Holders of the first block with the leading blocks they have.
    pub(super) fn find(&self, chain: &[u64]) -> Vec<(usize, u32)> {
        let leading = |holder| (holder, self.run_from(holder, chain, 0) as u32);
        (0..self.holders.len()).map(leading).filter(|&(_, blocks)| blocks > 0).collect()
    }
}
