//! What tests across crates share: mock engines that run, and a fleet and its layers over them.
//!
//! The crate's own tests are the conformance suite (docs/conformance.md) and the recordings held against the
//! adapter. Everything here can exist many times in one process; nothing binds a fixed port.

mod cluster;
mod mock;

pub use cluster::{Cluster, connector};
pub use mock::RunningMock;
