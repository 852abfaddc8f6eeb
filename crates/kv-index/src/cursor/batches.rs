//! Batches: as they arrive, those that wait, and what is remembered of those applied.

use std::collections::{BTreeMap, VecDeque};

use tito_types::KvCounters;

/// Batches held while a replay is awaited.
pub(super) const HELD_BATCHES_MAX: usize = 16_384;
/// Bytes held while a replay is awaited, as counted in [`Batch::bytes`].
pub(super) const HELD_BYTES_MAX: usize = 64 << 20;
/// Digests remembered, to tell a duplicate from a new process.
const RECENT_BATCHES_MAX: usize = 1_024;

/// One batch of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<B> {
    /// The publisher's number.
    pub seq: u64,
    /// Of the payload bytes, which hold a timestamp: equal means the same batch.
    pub digest: u64,
    /// What the batch occupies, for the bound on held batches.
    pub bytes: usize,
    /// What to apply; absent when nothing of it is usable. Of a damaged batch, only what follows the last event that could
    /// not be read: an event before that one may have been undone by it.
    pub body: Option<B>,
    /// Something in it could not be read and is not in `body`, so what it changed is unknown.
    pub damaged: bool,
    /// `body` has an AllBlocksCleared: after it the table is whole, whatever it was before.
    pub cleared: bool,
}

/// Live batches that wait for a replay, by number, each with the asks that were made before it came.
#[derive(Debug)]
pub(super) struct Held<B> {
    batches: BTreeMap<u64, (Batch<B>, u64)>,
    bytes: usize,
}

impl<B> Default for Held<B> {
    fn default() -> Self {
        Self { batches: BTreeMap::new(), bytes: 0 }
    }
}

impl<B> Held<B> {
    /// Keeps a batch, or gives it back when a bound is reached. A number that starts over or changes its content shows that
    /// what is held belongs to a process that is gone.
    pub(super) fn put(
        &mut self,
        batch: Batch<B>,
        asks: u64,
        counters: &mut KvCounters,
    ) -> Result<(), Batch<B>> {
        match self.batches.get(&batch.seq) {
            Some((held, _)) if held.digest == batch.digest => {
                counters.duplicates += 1;
                return Ok(());
            }
            Some(_) => self.clear(),
            None if batch.seq == 0 => self.clear(),
            None => {}
        }
        if self.batches.len() >= HELD_BATCHES_MAX || self.bytes.saturating_add(batch.bytes) > HELD_BYTES_MAX {
            return Err(batch);
        }
        self.bytes += batch.bytes;
        self.batches.insert(batch.seq, (batch, asks));
        Ok(())
    }

    /// The lowest number held, and the asks made before it came.
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.batches.first_key_value().map(|(&seq, &(_, asks))| (seq, asks))
    }

    pub(super) fn take_first(&mut self) -> Option<Batch<B>> {
        let (_, (batch, _)) = self.batches.pop_first()?;
        self.bytes -= batch.bytes;
        Some(batch)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What is known of a number at or below the last applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The same batch was applied.
    Same,
    /// Another batch was applied under this number.
    Other,
    /// It lies within what is remembered and was never applied.
    Skipped,
    /// It lies before all that is remembered.
    Older,
}

/// Numbers and digests of the batches applied last, rising.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<(u64, u64)>);

impl Recent {
    pub(super) fn put(&mut self, seq: u64, digest: u64) {
        if self.0.len() >= RECENT_BATCHES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((seq, digest));
    }

    pub(super) fn find(&self, seq: u64, digest: u64) -> Known {
        match self.0.binary_search_by_key(&seq, |&(seq, _)| seq) {
            Ok(at) if self.0[at].1 == digest => Known::Same,
            Ok(_) => Known::Other,
            Err(0) => Known::Older,
            Err(_) => Known::Skipped,
        }
    }
}
