//! The names of one engine that disagrees with the others: name ↔ block, one to one.
//!
//! Holds exactly the blocks that a holder of that engine has. Both directions are kept, because a block may be lost
//! without its name being said (eviction, a cleared tier).

use super::budget::{Budget, Full};
use super::names::Place;

const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) name: u64,
    pub(super) chain: u64,
    pub(super) place: Place,
}

/// Positions in `entries` (plus one), found by a hash of 32 bits.
#[derive(Default)]
struct Table {
    slots: Vec<u32>,
}

pub(super) struct Private {
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_name: Table,
    by_chain: Table,
}

fn home(key: u64, slots: usize) -> usize {
    (((key.wrapping_mul(MIX) >> 32) * slots as u64) >> 32) as usize
}

impl Table {
    fn find(&self, key: u64, is: impl Fn(u32) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = home(key, self.slots.len());
        while self.slots[at] != 0 {
            if is(self.slots[at] - 1) {
                return Some(at);
            }
            at = (at + 1) % self.slots.len();
        }
        None
    }

    fn insert(&mut self, key: u64, entry: u32) {
        let mut at = home(key, self.slots.len());
        while self.slots[at] != 0 {
            at = (at + 1) % self.slots.len();
        }
        self.slots[at] = entry + 1;
    }

    fn remove(&mut self, mut hole: usize, key_of: impl Fn(u32) -> u64) {
        let slots = self.slots.len();
        let mut at = hole;
        loop {
            at = (at + 1) % slots;
            let Some(entry) = self.slots[at].checked_sub(1) else { break };
            let home = home(key_of(entry), slots);
            if (at + slots - home) % slots >= (at + slots - hole) % slots {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
        }
        self.slots[hole] = 0;
    }
}

impl Private {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), by_name: Table::default(), by_chain: Table::default() }
    }

    /// Bytes taken from the budget, to be given back when this is dropped.
    pub(super) fn bytes(&self) -> usize {
        let ids = self.free.capacity() + self.by_name.slots.len() + self.by_chain.slots.len();
        self.entries.capacity() * size_of::<Entry>() + ids * size_of::<u32>()
    }

    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Makes room for `more` pairs.
    pub(super) fn reserve(&mut self, more: usize, budget: &mut Budget) -> Result<(), Full> {
        let growth = self.entries.len() + more - self.entries.capacity().min(self.entries.len() + more);
        if growth > 0 {
            // Asked for and given back: the tables that follow it are large, too.
            let bytes = 2 * (self.entries.capacity() + more) * size_of::<Entry>();
            budget.take_large(bytes, 0)?;
            budget.give(bytes);
        }
        budget.reserve(&mut self.entries, more)?;
        let entries = self.entries.capacity();
        budget.reserve_to(&mut self.free, entries)?;
        let wanted = (self.len() + more) * 4 / 3 + 1;
        let old = self.by_name.slots.len();
        if wanted <= old {
            return Ok(());
        }
        let slots = wanted.max(old + old / 2).max(16);
        budget.take(2 * slots * size_of::<u32>())?;
        let before = std::mem::replace(&mut self.by_name.slots, vec![0; slots]);
        self.by_chain.slots = vec![0; slots];
        for entry in before.into_iter().filter(|&slot| slot != 0).map(|slot| slot - 1) {
            let Entry { name, chain, .. } = self.entries[entry as usize];
            self.by_name.insert(name, entry);
            self.by_chain.insert(chain, entry);
        }
        budget.give(2 * old * size_of::<u32>());
        Ok(())
    }

    pub(super) fn of_name(&self, name: u64) -> Option<Entry> {
        let is = |entry: u32| self.entries[entry as usize].name == name;
        self.by_name.find(name, is).map(|slot| self.entries[self.by_name.slots[slot] as usize - 1])
    }

    pub(super) fn of_chain(&self, chain: u64) -> Option<Entry> {
        let is = |entry: u32| self.entries[entry as usize].chain == chain;
        self.by_chain.find(chain, is).map(|slot| self.entries[self.by_chain.slots[slot] as usize - 1])
    }

    /// Forgets the name of the block `chain`.
    pub(super) fn remove(&mut self, chain: u64) {
        let is_chain = |entry: u32| self.entries[entry as usize].chain == chain;
        let Some(slot) = self.by_chain.find(chain, is_chain) else { return };
        let entry = self.by_chain.slots[slot] - 1;
        let name = self.entries[entry as usize].name;
        self.by_chain.remove(slot, |entry| self.entries[entry as usize].chain);
        if let Some(slot) = self.by_name.find(name, |other| other == entry) {
            self.by_name.remove(slot, |entry| self.entries[entry as usize].name);
        }
        self.free.push(entry);
    }

    /// Pairs a name and a block that have no partner. The caller reserved room.
    pub(super) fn insert(&mut self, new: Entry) {
        let entry = if let Some(entry) = self.free.pop() {
            self.entries[entry as usize] = new;
            entry
        } else {
            self.entries.push(new);
            self.entries.len() as u32 - 1
        };
        self.by_name.insert(new.name, entry);
        self.by_chain.insert(new.chain, entry);
    }
}
