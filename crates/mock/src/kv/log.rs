//! What a rank has published: the last batches for replays, and the blocks that a listener must know of.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tokio::time::Instant;

use super::batch::Event;

/// Bytes that the batches kept for replays may take together, besides vLLM's bound on their number.
const REPLAY_BYTES_MAX: usize = 256 << 20;

/// What one rank has published until now, batches included that are sent late because a fault says so.
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
    last_seq: Option<u64>,
    /// How many copies are cached of each block, by its name.
    copies: BTreeMap<u64, u32>,
    batches: VecDeque<Sent>,
    bytes: usize,
}

/// A batch that is kept for replays.
#[derive(Debug)]
struct Sent {
    seq: u64,
    /// When it is sent: replays do not have it before.
    due: Instant,
    bytes: Bytes,
}

impl Log {
    pub(crate) fn new(batches_max: u32) -> Self {
        Self { kept: Mutex::default(), batches_max: batches_max as usize }
    }

    /// Records a batch that is sent at `due` and returns its sequence number.
    pub(crate) fn add(&self, events: &[Event], batch: Bytes, due: Instant) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = kept.last_seq.map_or(0, |last| last + 1);
        kept.last_seq = Some(seq);
        for event in events {
            match event {
                Event::Stored(stored) => {
                    for digest in &stored.blocks {
                        *kept.copies.entry(digest.name()).or_default() += 1;
                    }
                }
                Event::Removed(digest) => {
                    if let Some(copies) = kept.copies.get_mut(&digest.name()) {
                        *copies -= 1;
                        if *copies == 0 {
                            kept.copies.remove(&digest.name());
                        }
                    }
                }
                Event::Cleared => kept.copies.clear(),
            }
        }
        kept.bytes += batch.len();
        kept.batches.push_back(Sent { seq, due, bytes: batch });
        while kept.batches.len() > self.batches_max || kept.bytes > REPLAY_BYTES_MAX {
            let Some(oldest) = kept.batches.pop_front() else { break };
            kept.bytes -= oldest.bytes.len();
        }
        seq
    }

    /// The kept batches from a sequence number on that are sent by `now`, oldest first.
    pub(crate) fn since(&self, seq: u64, now: Instant) -> Vec<(u64, Bytes)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.batches.partition_point(|batch| batch.seq < seq);
        let sent = kept.batches.range(first..).take_while(|batch| batch.due <= now);
        sent.map(|batch| (batch.seq, batch.bytes.clone())).collect()
    }

    pub(crate) fn last_seq(&self) -> Option<u64> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).last_seq
    }

    pub(crate) fn state(&self) -> KvState {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        KvState { last_seq: kept.last_seq, resident: kept.copies.keys().copied().collect() }
    }
}
