//! What a slot is and what is in flight on it.

use tito_types::WorkerId;

use crate::cost::Milli;

/// One target on the board: a (worker, rank). Never reused for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    pub(crate) index: u32,
    pub(super) generation: u32,
}

/// Slots that serve the same names. The caller gives the numbers. A slot may change from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(pub u32);

/// What a slot is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotSpec {
    /// The worker.
    pub worker: WorkerId,
    /// The global data-parallel rank.
    pub rank: u32,
    /// What it serves.
    pub group: Group,
    /// KV room of this rank in tokens; 0 where it is not known.
    pub capacity_tokens: u64,
    /// Continuations it runs at a time; 0 where it is not known.
    pub running_max: u32,
    /// Continuations that may be in flight on it; `u32::MAX` is no limit. With nothing in flight it takes any request.
    pub continuations_max: u32,
}

/// What was sent to a slot and has not ended, and what its engine has beyond that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Requests.
    pub requests: u64,
    /// Continuations of those requests.
    pub continuations: u64,
    /// Prompt tokens to compute of requests not known to be past their prefill.
    pub prefill_tokens: u64,
    /// Tokens held by requests that are past it.
    pub decode_tokens: u64,
    /// What its engine has to do besides; absent where the engine does not tell.
    pub others: Option<super::Others>,
}

/// A change of what is in flight on one slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) requests: u64,
    pub(crate) continuations: u64,
    /// Thousandths of prompt tokens.
    pub(crate) prefill: Milli,
    /// Tokens held by requests before and past their prefill.
    pub(crate) held: u64,
    /// The part of `held` past it.
    pub(crate) decode: u64,
}

impl Amounts {
    pub(super) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.continuations += other.continuations;
        self.prefill += other.prefill;
        self.held += other.held;
        self.decode += other.decode;
    }

    pub(super) fn subtract(&mut self, other: Self) {
        self.requests = self.requests.saturating_sub(other.requests);
        self.continuations = self.continuations.saturating_sub(other.continuations);
        self.prefill = self.prefill.saturating_sub(other.prefill);
        self.held = self.held.saturating_sub(other.held);
        self.decode = self.decode.saturating_sub(other.decode);
    }
}
