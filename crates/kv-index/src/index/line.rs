//! What readers see of one run: one cache line, written under the run's sequence lock.

use std::sync::atomic::{AtomicU64, Ordering};

use super::seq;

/// Bits of a block or extra position.
const INDEX_BITS: u32 = 40;
const INDEX: u64 = (1 << INDEX_BITS) - 1;
/// Set by readers and the writer when the run was used; cleared by the eviction hand.
const TOUCHED: u64 = 1 << 63;
/// Bits of a run's length.
const LEN: u64 = (1 << 13) - 1;
/// In `set`: the words are in the extras instead of the line.
const OUTSIDE: u64 = 1 << 63;
const INLINE_INDEX: u64 = (1 << 31) - 1;

/// One run. All zero is a run that does not exist.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Line {
    seq: AtomicU64,
    head: AtomicU64,
    tail: AtomicU64,
    at: AtomicU64,
    set: AtomicU64,
    bits: [AtomicU64; 2],
    parts: AtomicU64,
}

/// Where a run's blocks are, and the chain hashes of its first and last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Shape {
    pub(super) head: u64,
    pub(super) tail: u64,
    /// Position of the first block in the columns.
    pub(super) base: usize,
    /// Blocks; 0 for a run that does not exist.
    pub(super) len: usize,
}

/// Where the holders of every block of a run are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// Up to two words of the set, each with its number.
    Inline([(usize, u64); 2]),
    /// All words from 0 on, in the extras.
    Outside { list: List, words: usize },
}

/// A list of words in the extras.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct List {
    pub(super) at: usize,
    /// It has `2 << class` words.
    pub(super) class: u32,
}

/// Where the holders of a part of a run are written: a list of packed [`super::cover::Part`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) list: List,
    pub(super) count: usize,
}

/// A copy of a line, to be trusted once [`Line::unchanged`] says so.
pub(super) struct Snapshot {
    pub(super) seq: u64,
    pub(super) shape: Shape,
    pub(super) touched: bool,
    set: u64,
    bits: [u64; 2],
    parts: u64,
}

impl List {
    fn pack(self) -> u64 {
        self.at as u64 | u64::from(self.class) << INDEX_BITS
    }

    fn unpack(word: u64) -> Self {
        Self { at: (word & INDEX) as usize, class: (word >> INDEX_BITS & 31) as u32 }
    }
}

impl Snapshot {
    #[inline]
    pub(super) fn set(&self) -> Set {
        if self.set & OUTSIDE != 0 {
            let words = (self.set >> (INDEX_BITS + 5) & 0x3_FFFF) as usize;
            return Set::Outside { list: List::unpack(self.set), words };
        }
        let first = (self.set & INLINE_INDEX) as usize;
        let second = (self.set >> 31 & INLINE_INDEX) as usize;
        Set::Inline([(first, self.bits[0]), (second, self.bits[1])])
    }

    /// Whether `holder` has every block and nobody else has.
    #[inline]
    pub(super) fn is_whole_only(&self, holder: u32) -> bool {
        let (word, bit) = (u64::from(holder / 64), 1 << (holder % 64));
        // The first word of a set in the line is its lowest; the second is empty if it has only one.
        self.set == word && self.bits == [bit, 0]
    }

    #[inline]
    pub(super) fn parts(&self) -> Option<Parts> {
        let count = (self.parts >> (INDEX_BITS + 5)) as usize;
        (count > 0).then(|| Parts { list: List::unpack(self.parts), count })
    }
}

impl Line {
    /// Begins a read; `None` while the run is being written.
    #[inline]
    pub(super) fn read(&self) -> Option<Snapshot> {
        let seq = seq::read_begin(&self.seq)?;
        let at = self.at.load(Ordering::Relaxed);
        Some(Snapshot {
            seq,
            shape: Shape {
                head: self.head.load(Ordering::Relaxed),
                tail: self.tail.load(Ordering::Relaxed),
                base: (at & INDEX) as usize,
                len: (at >> INDEX_BITS & LEN) as usize,
            },
            touched: at & TOUCHED != 0,
            set: self.set.load(Ordering::Relaxed),
            bits: [self.bits[0].load(Ordering::Relaxed), self.bits[1].load(Ordering::Relaxed)],
            parts: self.parts.load(Ordering::Relaxed),
        })
    }

    #[inline]
    pub(super) fn unchanged(&self, seq: u64) -> bool {
        seq::unchanged(&self.seq, seq)
    }

    /// Whether a run with this first block is here, at this moment.
    #[inline]
    pub(super) fn starts_with(&self, head: u64) -> bool {
        self.head.load(Ordering::Relaxed) == head && self.at.load(Ordering::Relaxed) >> INDEX_BITS & LEN != 0
    }

    /// Blocks of the run.
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.at.load(Ordering::Relaxed) >> INDEX_BITS & LEN) as usize
    }

    /// Remembers that the run was used.The line is written only if it was not yet marked.
    pub(super) fn touch(&self) {
        if self.at.load(Ordering::Relaxed) & TOUCHED == 0 {
            self.at.fetch_or(TOUCHED, Ordering::Relaxed);
        }
    }

    /// Clears the mark of [`Self::touch`] and returns it.
    pub(super) fn forget_touch(&self) -> bool {
        self.at.fetch_and(!TOUCHED, Ordering::Relaxed) & TOUCHED != 0
    }

    /// The writer's view: it is the only one that writes, so no sequence is needed.
    #[inline]
    pub(super) fn own(&self) -> Snapshot {
        self.read().expect("the writer finished its last change")
    }

    /// Changes where the blocks are; the holders stay.
    pub(super) fn reshape(&self, shape: Shape) {
        seq::write(&self.seq, || self.put_shape(shape));
    }

    /// Changes everything at once.
    pub(super) fn publish(&self, shape: Shape, set: Set, parts: Option<Parts>, fill: impl FnOnce()) {
        seq::write(&self.seq, || {
            fill();
            self.put_shape(shape);
            let (word, bits) = match set {
                Set::Inline([(first, low), (second, high)]) => {
                    (first as u64 | (second as u64) << 31, [low, high])
                }
                Set::Outside { list, words } => {
                    (OUTSIDE | list.pack() | (words as u64) << (INDEX_BITS + 5), [0, 0])
                }
            };
            self.set.store(word, Ordering::Relaxed);
            self.bits[0].store(bits[0], Ordering::Relaxed);
            self.bits[1].store(bits[1], Ordering::Relaxed);
            let parts = parts.map_or(0, |parts| parts.list.pack() | (parts.count as u64) << (INDEX_BITS + 5));
            self.parts.store(parts, Ordering::Relaxed);
        });
    }

    fn put_shape(&self, shape: Shape) {
        self.head.store(shape.head, Ordering::Relaxed);
        self.tail.store(shape.tail, Ordering::Relaxed);
        let at = shape.base as u64 | (shape.len as u64) << INDEX_BITS;
        let touched = self.at.load(Ordering::Relaxed) & TOUCHED;
        self.at.store(at | touched, Ordering::Relaxed);
    }
}
