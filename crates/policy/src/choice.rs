//! What a caller is told.

use std::fmt;

use tito_types::WorkerId;

use crate::{Load, Slot, Ticket};

/// Most names an error lists (workers or ranks).
pub(crate) const NAMES_MAX: usize = 64;

/// A slot was chosen and charged.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The slot.
    pub slot: Slot,
    /// Its worker.
    pub worker: WorkerId,
    /// Its global rank.
    pub rank: u32,
    /// Gives the charge back.
    pub ticket: Ticket,
    /// Leading tokens it holds by its events, on any tier.
    pub overlap_tokens: u32,
    /// Leading tokens it should hold once what was sent to it before has run.
    pub predicted_tokens: u32,
    /// What it was charged: prompt tokens to compute, lower tiers counted by their weights.
    pub uncached_tokens: u32,
    /// Its cost at that moment, in tokens of prefill.
    pub cost: f64,
    /// What decided.
    pub rule: Rule,
}

/// What decided a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The client's pin.
    Pin,
    /// The session was there before.
    Session,
    /// Siblings are there, or are elsewhere where they are to be spread.
    Siblings,
    /// The policy.
    Policy,
}

impl Rule {
    /// As operators see it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pin => "pin",
            Self::Session => "session",
            Self::Siblings => "siblings",
            Self::Policy => "policy",
        }
    }
}

/// One slot as a choice would see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The slot.
    pub slot: Slot,
    /// Its worker.
    pub worker: WorkerId,
    /// Its global rank.
    pub rank: u32,
    /// Leading tokens it holds by its events, on any tier.
    pub overlap_tokens: u32,
    /// Leading tokens it should hold once what was sent to it before has run.
    pub predicted_tokens: u32,
    /// What is in flight there.
    pub load: Load,
    /// Its cost, in tokens of prefill; lower is better.
    pub cost: f64,
    /// Why it cannot be chosen; absent when it can.
    pub unfit: Option<Unfit>,
}

/// Why a slot cannot be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// The query leaves its worker out.
    Excluded,
    /// The pin names another one.
    PinnedElsewhere,
    /// It has as much in flight as it may.
    Full,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Excluded => "excluded by the request",
            Self::PinnedElsewhere => "the request is pinned elsewhere",
            Self::Full => "at its limit",
        })
    }
}

/// Nothing was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Slots would do and all are at their limits: trying again after something ends makes sense.
    Full,
    /// No slot serves the query.
    Nobody,
    /// All that serve it are excluded by the query.
    Excluded,
    /// The policy sends requests only where they are pinned, and this one is not.
    PinRequired,
    /// No worker of that name serves the query.
    UnknownWorker {
        /// The pin.
        worker: WorkerId,
        /// Who does, in order; the first 64.
        valid: Vec<WorkerId>,
    },
    /// No such rank serves the query, or not on that worker.
    UnknownRank {
        /// The pinned rank.
        rank: u32,
        /// The pinned worker.
        worker: Option<WorkerId>,
        /// Those that do, in order; the first 64.
        valid: Vec<u32>,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("every target is at its limit"),
            Self::Nobody => f.write_str("no target serves the request"),
            Self::Excluded => f.write_str("every target was tried or left out"),
            Self::PinRequired => f.write_str("the direct policy needs a worker or a rank"),
            Self::UnknownWorker { worker, valid } => {
                write!(f, "worker {worker} does not serve the request; valid: ")?;
                list(f, valid)
            }
            Self::UnknownRank { rank, worker: Some(worker), valid } => {
                write!(f, "rank {rank} does not exist on worker {worker}; valid: ")?;
                list_ranks(f, valid)
            }
            Self::UnknownRank { rank, worker: None, valid } => {
                write!(f, "rank {rank} does not exist; valid: ")?;
                list_ranks(f, valid)
            }
        }
    }
}

impl std::error::Error for Refusal {}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Ranks without a hole as a range.
fn list_ranks(f: &mut fmt::Formatter<'_>, ranks: &[u32]) -> fmt::Result {
    match (ranks.first(), ranks.last()) {
        (Some(first), Some(last)) if ranks.len() > 2 && (last - first) as usize + 1 == ranks.len() => {
            write!(f, "{first} to {last}")
        }
        _ => list(f, ranks),
    }
}
