//! What a caller asks.

use std::sync::Arc;

use tito_types::WorkerId;

use crate::{Group, Slot};

/// One request that wants a place.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Groups whose slots serve it.
    pub groups: &'a [Group],
    /// Tokens of the prompt. An estimate where it is not known, as with raw media.
    pub prompt_tokens: u32,
    /// Continuations it asks for; at least 1.
    pub continuations: u32,
    /// What slots hold of the prompt, by their events. At most one entry per slot; slots left out hold nothing.
    pub overlaps: &'a [Overlap],
    /// The prompt's full blocks at one block size, the same for all queries: the finest among the slots. Without it
    /// neither what was sent before nor siblings are recognised.
    pub prefix: Option<&'a Prefix>,
    /// Keyed hash of the client's name for its session. Absent where the client gave none: such requests have
    /// nothing in common.
    pub session: Option<u64>,
    /// Where it must go.
    pub pin: Option<&'a Pin>,
    /// Workers it must not go to, such as those that failed it before.
    pub exclude: &'a [WorkerId],
}

/// Leading tokens of a prompt on one slot. Each tier continues where the one before ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// Who holds them. A slot that is gone is no mistake.
    pub slot: Slot,
    /// In device memory.
    pub gpu_tokens: u32,
    /// In host memory.
    pub cpu_tokens: u32,
    /// On disk or in a shared store.
    pub storage_tokens: u32,
}

/// A prompt as chained block hashes: equal hashes at a position are equal prompts up to it.
#[derive(Debug, Clone)]
pub struct Prefix {
    /// Tokens per block.
    pub block_tokens: u32,
    /// One hash per full block. The hashes of different salts and adapters never meet.
    pub chain: Arc<[u64]>,
}

/// A place that the client chose. Both absent pins nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pin {
    /// The worker.
    pub worker: Option<WorkerId>,
    /// The global data-parallel rank.
    pub rank: Option<u32>,
}
