//! Growable arrays whose items never move: readers index them without a lock while the writer appends chunks.

use std::ops::{Index, IndexMut};
use std::sync::OnceLock;

/// Shared by readers and the writer. A chunk, once added, stays for the life of the array.
pub(super) struct Chunks<T> {
    directory: Box<[OnceLock<Box<[T]>>]>,
    shift: u32,
}

impl<T: Default> Chunks<T> {
    /// Room for `items_max` items in chunks of `1 << shift`.
    pub(super) fn new(shift: u32, items_max: usize) -> Self {
        let chunks = (items_max >> shift) + 1;
        Self { directory: (0..chunks).map(|_| OnceLock::new()).collect(), shift }
    }

    pub(super) fn chunk_items(&self) -> usize {
        1 << self.shift
    }

    pub(super) fn chunks_max(&self) -> usize {
        self.directory.len()
    }

    /// Bytes of the directory itself.
    pub(super) fn directory_bytes(&self) -> usize {
        self.directory.len() * size_of::<OnceLock<Box<[T]>>>()
    }

    /// Adds a chunk of default items; adding it twice changes nothing.
    pub(super) fn add(&self, chunk: usize) {
        self.directory[chunk].get_or_init(|| (0..self.chunk_items()).map(|_| T::default()).collect());
    }

    /// `None` for an index that was never added.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        self.directory.get(index >> self.shift)?.get()?.get(index & (self.chunk_items() - 1))
    }

    /// `len` neighbours in one chunk.
    #[inline]
    pub(super) fn slice(&self, from: usize, len: usize) -> Option<&[T]> {
        let chunk = self.directory.get(from >> self.shift)?.get()?;
        let from = from & (self.chunk_items() - 1);
        chunk.get(from..from + len)
    }
}

/// The writer's own array in pages: growing it copies nothing, so its size is known to the byte.
pub(super) struct Pages<T> {
    pages: Vec<Box<[T]>>,
    shift: u32,
}

impl<T: Default> Pages<T> {
    pub(super) fn new(shift: u32) -> Self {
        Self { pages: Vec::new(), shift }
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len() << self.shift
    }

    pub(super) fn page_bytes(&self) -> usize {
        (size_of::<T>() << self.shift) + size_of::<Box<[T]>>()
    }

    pub(super) fn add(&mut self) {
        self.pages.reserve_exact(1);
        self.pages.push((0..1usize << self.shift).map(|_| T::default()).collect());
    }

    /// `len` neighbours in one page.
    #[inline]
    pub(super) fn slice(&self, from: usize, len: usize) -> &[T] {
        let at = from & ((1 << self.shift) - 1);
        &self.pages[from >> self.shift][at..at + len]
    }

    /// `len` neighbours in one page.
    #[inline]
    pub(super) fn slice_mut(&mut self, from: usize, len: usize) -> &mut [T] {
        let at = from & ((1 << self.shift) - 1);
        &mut self.pages[from >> self.shift][at..at + len]
    }
}

impl<T> Index<usize> for Pages<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.pages[index >> self.shift][index & ((1 << self.shift) - 1)]
    }
}

impl<T> IndexMut<usize> for Pages<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.pages[index >> self.shift][index & ((1 << self.shift) - 1)]
    }
}
