//! What a rank has published: the last batches for replays, and the blocks that a listener must know of.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::batch::Event;

/// Bytes that the batches kept for replays may take together, besides vLLM's bound on their number.
const REPLAY_BYTES_MAX: usize = 256 << 20;

/// What one rank has published until now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KvState {
    /// Sequence number of the last batch; none before the first one.
    pub last_seq: Option<u64>,
    /// Names of the blocks that are cached after that batch: the low 64 bits of their digests.
    pub resident: BTreeSet<u64>,
}

/// The record of one rank, shared by its publisher, its replay socket and tests.
#[derive(Debug)]
pub(crate) struct Log {
    kept: Mutex<Kept>,
    batches_max: usize,
}

#[derive(Debug, Default)]
struct Kept {
    state: KvState,
    batches: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

impl Log {
    pub(crate) fn new(batches_max: u32) -> Self {
        Self { kept: Mutex::default(), batches_max: batches_max as usize }
    }

    /// Records a batch and returns its sequence number.
    pub(crate) fn add(&self, events: &[Event], batch: Bytes) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = kept.state.last_seq.map_or(0, |last| last + 1);
        kept.state.last_seq = Some(seq);
        for event in events {
            match event {
                Event::Stored(stored) => {
                    kept.state.resident.extend(stored.blocks.iter().map(super::digest::Digest::name));
                }
                Event::Removed(digest) => {
                    kept.state.resident.remove(&digest.name());
                }
                Event::Cleared => kept.state.resident.clear(),
            }
        }
        kept.bytes += batch.len();
        kept.batches.push_back((seq, batch));
        while kept.batches.len() > self.batches_max || kept.bytes > REPLAY_BYTES_MAX {
            let Some((_, oldest)) = kept.batches.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
        seq
    }

    /// The kept batches from a sequence number on, oldest first.
    pub(crate) fn since(&self, seq: u64) -> Vec<(u64, Bytes)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.batches.partition_point(|(other, _)| *other < seq);
        kept.batches.range(first..).cloned().collect()
    }

    pub(crate) fn last_seq(&self) -> Option<u64> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).state.last_seq
    }

    pub(crate) fn state(&self) -> KvState {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).state.clone()
    }
}
