//! A small bit set over the first blocks of runs: tells the writer, from the nearest cache, that a block begins no run.
//!
//! Every new block is asked for, because a run may have been left without the blocks before it.

use super::budget::{Budget, Full};

/// Bits per entry, at least: one in sixteen answers sends the writer to the table in vain.
const ENTRY_BITS: usize = 16;
const WORDS_MIN: usize = 16;

pub(super) struct Filter {
    words: Vec<u64>,
    /// log2 of the bits.
    bits: u32,
    /// Entries since the last rebuild; some may be gone since.
    entries: usize,
}

impl Filter {
    pub(super) fn new() -> Self {
        Self { words: vec![0; WORDS_MIN], bits: (WORDS_MIN * 64).trailing_zeros(), entries: 0 }
    }

    /// Whether a run may begin with a block of this tag.
    #[inline]
    pub(super) fn may_have(&self, tag: u32) -> bool {
        let bit = tag >> (32 - self.bits);
        self.words[bit as usize / 64] >> (bit % 64) & 1 == 1
    }

    pub(super) fn add(&mut self, tag: u32) {
        let bit = tag >> (32 - self.bits);
        self.words[bit as usize / 64] |= 1 << (bit % 64);
        self.entries += 1;
    }

    /// Makes room for one more entry: forgets those that are gone, and grows if that is not enough.
    pub(super) fn reserve(
        &mut self,
        live: impl Iterator<Item = u32> + Clone,
        budget: &mut Budget,
    ) -> Result<(), Full> {
        if (self.entries + 1) * ENTRY_BITS <= self.words.len() * 64 || self.bits == 32 {
            return Ok(());
        }
        if live.clone().count() * 2 * ENTRY_BITS > self.words.len() * 64 {
            let words = self.words.len() * 2;
            budget.take(words * size_of::<u64>())?;
            budget.give(self.words.len() * size_of::<u64>());
            self.words = vec![0; words];
            self.bits += 1;
        } else {
            self.words.fill(0);
        }
        self.entries = 0;
        live.for_each(|tag| self.add(tag));
        Ok(())
    }
}
