//! KV events under torture: the mock's publisher, the adapter's feed and the fleet's targets as one chain, held against
//! what the engine really has cached. After everything that may go wrong with events the index is exact where it claims to
//! be complete, and never claims a block that is not there.
//!
//! `TITO_DRIFT_SECS` (a number) changes how long requests are routed while predictions are held against what engines report;
//! `TITO_EVENTS_SEEDS` (a number) changes how many random scenarios are run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod ask;
mod bench;
mod drift;
mod faults;
mod flapping;
mod restart;
mod shapes;
mod sweep;
