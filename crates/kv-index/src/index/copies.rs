//! Blocks that a holder has more than once: how many copies each has beyond the first.
//!
//! Few blocks have any, so they are kept aside: what a block costs is unchanged. An entry goes with its last further copy,
//! and with the block.

use super::budget::{Budget, Full};

#[cfg(test)]
mod tests;

const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
const SLOTS_MIN: usize = 16;

/// A block and its further copies; a slot without any is free.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    chain: u64,
    further: u32,
}

/// An open-addressing table by chain hash, of one holder.
#[derive(Default)]
pub(super) struct Copies {
    slots: Vec<Slot>,
    len: usize,
}

impl Copies {
    /// Whether no block has a second copy.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Blocks that have further copies.
    #[cfg(test)]
    pub(super) fn chains(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().filter(|slot| slot.further > 0).map(|slot| slot.chain)
    }

    /// One copy more of a block.
    pub(super) fn add(&mut self, chain: u64, budget: &mut Budget) -> Result<(), Full> {
        if let Some(at) = self.find(chain) {
            self.slots[at].further = self.slots[at].further.saturating_add(1);
            return Ok(());
        }
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow(budget)?;
        }
        self.insert(Slot { chain, further: 1 });
        Ok(())
    }

    /// One copy less of a block. False if it has no further one: then the block itself goes.
    pub(super) fn take(&mut self, chain: u64, budget: &mut Budget) -> bool {
        let Some(at) = self.find(chain) else { return false };
        self.slots[at].further -= 1;
        if self.slots[at].further == 0 {
            self.remove(at, budget);
        }
        true
    }

    /// The block is gone, or has another name.
    pub(super) fn forget(&mut self, chain: u64, budget: &mut Budget) {
        if let Some(at) = self.find(chain) {
            self.remove(at, budget);
        }
    }

    fn home(&self, chain: u64) -> usize {
        (((chain.wrapping_mul(MIX) >> 32) * self.slots.len() as u64) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    fn find(&self, chain: u64) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.home(chain);
        while self.slots[at].further > 0 {
            if self.slots[at].chain == chain {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }

    fn insert(&mut self, slot: Slot) {
        let mut at = self.home(slot.chain);
        while self.slots[at].further > 0 {
            at = self.after(at);
        }
        self.slots[at] = slot;
        self.len += 1;
    }

    fn grow(&mut self, budget: &mut Budget) -> Result<(), Full> {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        budget.take(slots * size_of::<Slot>())?;
        let before = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        budget.give(before.len() * size_of::<Slot>());
        self.len = 0;
        for slot in before.into_iter().filter(|slot| slot.further > 0) {
            self.insert(slot);
        }
        Ok(())
    }

    /// Frees a slot; entries after it move up to where they are looked for. The last entry gives all room back.
    fn remove(&mut self, mut hole: usize, budget: &mut Budget) {
        self.len -= 1;
        if self.len == 0 {
            budget.give(self.slots.len() * size_of::<Slot>());
            self.slots = Vec::new();
            return;
        }
        let slots = self.slots.len();
        let mut at = hole;
        loop {
            at = self.after(at);
            if self.slots[at].further == 0 {
                break;
            }
            let home = self.home(self.slots[at].chain);
            if (at + slots - home) % slots >= (at + slots - hole) % slots {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
        }
        self.slots[hole] = Slot::default();
    }
}
