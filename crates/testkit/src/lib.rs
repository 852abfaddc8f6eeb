//! What tests across crates share: mock engines that run, a fleet and its layers over them, and waiting with a
//! deadline.
//!
//! The crate's own tests are the conformance suite (docs/conformance.md) and the recordings held against the
//! adapter. Everything here can exist many times in one process; nothing binds a fixed port.

mod cluster;
mod mock;
mod wait;

pub use cluster::{Cluster, ClusterError, connector};
pub use mock::RunningMock;
pub use wait::{WAIT_LIMIT, wait_for, wait_until};
