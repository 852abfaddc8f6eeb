//! The sequence lock of one run: readers copy without locking and learn afterwards whether the copy is whole.
//!
//! Generic over the word, so that the model checker runs exactly this code. The rule that makes reuse safe: memory
//! that belonged to one run is written again only after that run's sequence was made odd and a release fence followed.
//! A reader that saw the new value therefore sees the changed sequence, too.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// An atomic 64-bit word and the fence that goes with it.
pub(super) trait Word {
    fn new(value: u64) -> Self;
    /// What its only writer sees.
    fn own(&self) -> u64;
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn fence(order: Ordering);
}

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    #[inline]
    fn own(&self) -> u64 {
        Self::load(self, Ordering::Relaxed)
    }

    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }

    #[inline]
    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Begins a read; `None` while the run is being written.
#[inline]
pub(super) fn read_begin<W: Word>(seq: &W) -> Option<u64> {
    let began = seq.load(Ordering::Acquire);
    began.is_multiple_of(2).then_some(began)
}

/// Whether nothing was written since `began`. Call it after the last load that matters.
#[inline]
pub(super) fn unchanged<W: Word>(seq: &W, began: u64) -> bool {
    W::fence(Ordering::Acquire);
    seq.load(Ordering::Relaxed) == began
}

/// Runs `change` between an odd and the next even sequence. Only one thread writes at a time.
#[inline]
pub(super) fn write<W: Word>(seq: &W, change: impl FnOnce()) {
    let before = seq.own();
    seq.store(before.wrapping_add(1), Ordering::Relaxed);
    W::fence(Ordering::Release);
    change();
    seq.store(before.wrapping_add(2), Ordering::Release);
}
