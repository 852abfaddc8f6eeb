//! The byte bound: every allocation of the index is taken from here before it is made.

/// The bound would be passed; nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// Large allocations leave this share of the bound to small ones, without which nothing can be stored at all.
const SPARE_SHARE: usize = 16;

/// Bytes allocated and the most that may be.
pub(super) struct Budget {
    bytes: usize,
    bytes_max: usize,
}

impl Budget {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: 0, bytes_max }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn left(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes)
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes > self.left() {
            return Err(Full);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Takes `bytes` for something large, if `promised` more and the share of small allocations would still fit.
    pub(super) fn take_large(&mut self, bytes: usize, promised: usize) -> Result<(), Full> {
        if bytes + promised + self.bytes_max / SPARE_SHARE > self.left() {
            return Err(Full);
        }
        self.bytes += bytes;
        Ok(())
    }

    pub(super) fn give(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// Makes room for `more` items in a vector, within the bound: old and new storage count while both exist.
    pub(super) fn reserve<T>(&mut self, items: &mut Vec<T>, more: usize) -> Result<(), Full> {
        let items_max = items.len() + more;
        self.reserve_to(items, items_max)
    }

    /// Makes room for `items_max` items in all.
    pub(super) fn reserve_to<T>(&mut self, items: &mut Vec<T>, items_max: usize) -> Result<(), Full> {
        if items_max <= items.capacity() {
            return Ok(());
        }
        let old = items.capacity();
        let new = items_max.max(old + old / 2).max(4);
        self.take(new * size_of::<T>())?;
        items.reserve_exact(new - items.len());
        self.give(old * size_of::<T>());
        Ok(())
    }
}
