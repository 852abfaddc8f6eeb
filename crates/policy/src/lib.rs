//! Cost and choice of (worker, rank) from loads, overlaps and `now`. Pure.
//!
//! [`Board`] is one value that its owner keeps behind a mutex: the targets as [`Slot`]s, a ledger of what was sent to
//! each and has not ended, and a policy. [`Board::choose`] picks a slot and charges it in one call, so that the next
//! request already sees the load of this one. What was charged is given back by its [`Ticket`], exactly once,
//! whatever became of the slot in between. [`Board::report`] adds what an engine itself says to have beyond that, where
//! others send to it too. [`Board::explain`] shows the same numbers and changes nothing.
//!
//! Nothing here reads a clock or a random source: the caller passes `now` (time since its own start) and a seed.
//! Nothing here knows block hashes either: the caller says how many leading tokens each target holds.

mod affinity;
mod board;
mod choice;
mod cost;
mod fast_map;
mod gather;
mod ledger;
mod policy;
mod predicted;
mod query;
mod random;
mod siblings;
mod slots;
mod tournament;
mod view;

pub use affinity::Stickiness;
pub use board::{Board, BoardConfig, BoardStats};
pub use choice::{Candidate, Choice, Refusal, Rule, Unfit};
pub use cost::Weights;
pub use ledger::{Charge, Ticket};
pub use policy::{PolicyKind, UnknownPolicy};
pub use query::{Overlap, Pin, Prefix, Query};
pub use siblings::SiblingRule;
pub use slots::{Group, Load, Others, Reported, Slot, SlotSpec};
