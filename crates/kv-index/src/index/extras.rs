//! Short lists of words beside the lines: large holder sets and the holders of parts of runs. Read under the sequence
//! lock of the run that owns the list.

use std::sync::atomic::{AtomicU64, Ordering};

use super::budget::{Budget, Full};
use super::chunks::Chunks;
use super::line::List;

const CLASSES: usize = 24;

/// The writer's side: which lists are free. Free lists are linked through their first word.
pub(super) struct Extras {
    free: [usize; CLASSES],
    chunks: usize,
    used: usize,
}

impl Extras {
    pub(super) fn new() -> Self {
        Self { free: [0; CLASSES], chunks: 0, used: 0 }
    }

    /// A list of at least `words`.
    pub(super) fn make(
        &mut self,
        words: usize,
        store: &Chunks<AtomicU64>,
        budget: &mut Budget,
    ) -> Result<List, Full> {
        let class = words.max(2).next_power_of_two().trailing_zeros() - 1;
        let size = 2usize << class;
        let chunk = store.chunk_items();
        if size > chunk || class as usize >= CLASSES {
            return Err(Full);
        }
        let head = self.free[class as usize];
        if head != 0 {
            let at = head - 1;
            let next = store.get(at).expect("free lists are in added chunks").load(Ordering::Relaxed);
            self.free[class as usize] = next as usize;
            return Ok(List { at, class });
        }
        if self.used + size > self.chunks * chunk {
            if self.chunks == store.chunks_max() {
                return Err(Full);
            }
            budget.take(chunk * size_of::<u64>())?;
            self.spread(self.chunks * chunk, store);
            store.add(self.chunks);
            self.used = self.chunks * chunk;
            self.chunks += 1;
        }
        let at = self.used;
        self.used += size;
        Ok(List { at, class })
    }

    /// Turns the unused end of the last chunk into free lists.
    fn spread(&mut self, end: usize, store: &Chunks<AtomicU64>) {
        while end - self.used >= 2 {
            let class = (end - self.used).ilog2() - 1;
            self.free(List { at: self.used, class }, store);
            self.used += 2 << class;
        }
    }

    pub(super) fn free(&mut self, list: List, store: &Chunks<AtomicU64>) {
        let next = self.free[list.class as usize];
        store.get(list.at).expect("lists are in added chunks").store(next as u64, Ordering::Relaxed);
        self.free[list.class as usize] = list.at + 1;
    }
}
