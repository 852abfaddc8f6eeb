//! Chain hash of a run's first block → run. One table for the whole index, small because runs are few.
//!
//! A hit is proven by the run itself, whose first chain hash is compared by the caller. A miss counts only if no
//! entry was moved meanwhile, which `moves` tells. Growth fills a new table and publishes it; the old one is kept,
//! frozen, because a reader may still look at it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::budget::{Budget, Full};
use super::seq::{Word, read_begin, unchanged, write};

/// log2 of the slots of the first table.
const BITS_MIN: u32 = 6;
/// Tables, each twice as large as the one before: 2⁶ to 2³¹ slots.
const LEVELS: usize = 26;
/// Odd, with well spread bits: 2⁶⁴ / φ.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// What a look-up without a lock found.
pub(super) enum Probe<T> {
    Hit(T),
    Absent,
    /// Entries were moved during the look-up: ask again.
    Moved,
}

/// Generic over the word, so that the model checker runs exactly this code.
pub(super) struct Heads<W = AtomicU64> {
    levels: [OnceLock<Box<[W]>>; LEVELS],
    level: W,
    moves: W,
    /// log2 of the slots of the first table.
    bits_min: u32,
}

/// The bits of a hash that a slot keeps. Home positions derive from them alone, so slots can be moved without the hash.
#[inline]
pub(super) fn tag(hash: u64) -> u32 {
    (hash.wrapping_mul(MIX) >> 32) as u32
}

fn slots<W: Word>(bits: u32) -> Box<[W]> {
    (0..1usize << bits).map(|_| W::new(0)).collect()
}

impl Heads {
    pub(super) fn new() -> Self {
        Self::with_bits(BITS_MIN)
    }

    pub(super) fn bytes_first() -> usize {
        size_of::<u64>() << BITS_MIN
    }
}

impl<W: Word> Heads<W> {
    pub(super) fn with_bits(bits_min: u32) -> Self {
        let heads = Self {
            levels: [const { OnceLock::new() }; LEVELS],
            level: W::new(0),
            moves: W::new(0),
            bits_min,
        };
        heads.levels[0].get_or_init(|| slots(bits_min));
        heads
    }

    #[inline]
    fn table(&self) -> (&[W], u32) {
        let level = self.level.load(Ordering::Acquire);
        let table = self.levels[level as usize].get().expect("a level is published after it was made");
        (table, self.bits_min + level as u32)
    }

    /// Runs whose first block may be `hash`, until `accept` takes one.
    #[inline]
    pub(super) fn probe<T>(&self, hash: u64, mut accept: impl FnMut(u32) -> Option<T>) -> Probe<T> {
        let Some(began) = read_begin(&self.moves) else { return Probe::Moved };
        let (table, bits) = self.table();
        let tag = tag(hash);
        let mask = table.len() - 1;
        let home = (tag >> (32 - bits)) as usize;
        for at in home..home + table.len() {
            let slot = table[at & mask].load(Ordering::Acquire);
            if slot == 0 {
                break;
            }
            if (slot >> 32) as u32 == tag
                && let Some(found) = accept(slot as u32)
            {
                return Probe::Hit(found);
            }
        }

        if unchanged(&self.moves, began) { Probe::Absent } else { Probe::Moved }
    }

    /// The tags of all entries. For the writer.
    pub(super) fn tags(&self) -> impl Iterator<Item = u32> + Clone {
        self.table().0.iter().map(Word::own).filter(|&slot| slot != 0).map(|slot| (slot >> 32) as u32)
    }

    /// Makes room for one more of `live` entries: at most two thirds of the slots are used.
    pub(super) fn reserve(&self, live: usize, budget: &mut Budget) -> Result<(), Full> {
        let (table, bits) = self.table();
        if (live + 1) * 3 <= table.len() * 2 {
            return Ok(());
        }
        let level = (bits + 1 - self.bits_min) as usize;
        if level >= LEVELS {
            return Err(Full);
        }
        if self.levels[level].get().is_none() {
            budget.take(size_of::<u64>() << (bits + 1))?;
        }
        let larger = self.levels[level].get_or_init(|| slots(bits + 1));
        for slot in table {
            let slot = slot.own();
            if slot != 0 {
                place(larger, bits + 1, slot);
            }
        }
        write(&self.moves, || self.level.store(level as u64, Ordering::Release));
        Ok(())
    }

    /// The caller reserved room.
    pub(super) fn insert(&self, hash: u64, run: u32) {
        let (table, bits) = self.table();
        place(table, bits, u64::from(tag(hash)) << 32 | u64::from(run));
    }

    pub(super) fn remove(&self, hash: u64, run: u32) {
        let (table, bits) = self.table();
        let mask = table.len() - 1;
        let wanted = u64::from(tag(hash)) << 32 | u64::from(run);
        let mut hole = (tag(hash) >> (32 - bits)) as usize;
        loop {
            match table[hole].own() {
                0 => return,
                slot if slot == wanted => break,
                _ => hole = (hole + 1) & mask,
            }
        }
        write(&self.moves, || {
            let mut at = hole;
            loop {
                at = (at + 1) & mask;
                let slot = table[at].own();
                if slot == 0 {
                    break;
                }
                let home = (slot >> (64 - bits)) as usize;
                // Cyclic distances: an entry may fill the hole if its home is not behind the hole.
                if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                    table[hole].store(slot, Ordering::Release);
                    hole = at;
                }
            }
            table[hole].store(0, Ordering::Release);
        });
    }
}

fn place<W: Word>(table: &[W], bits: u32, slot: u64) {
    let mask = table.len() - 1;
    let mut at = (slot >> (64 - bits)) as usize;
    while table[at].own() != 0 {
        at = (at + 1) & mask;
    }
    table[at].store(slot, Ordering::Release);
}
