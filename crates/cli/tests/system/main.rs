//! The `tito` binary as its users meet it: processes, sockets, signals and files, over simulated engines.
//!
//! Every test starts what it needs on free ports of the loopback interface and ends it when it ends. Nothing here
//! calls into a crate of the workspace: what is asserted is what a client, an engine or an operator can see.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod admission;
mod cancel;
mod config;
mod control;
mod deliveries;
mod exact;
mod fields;
mod fleet;
mod harness;
mod keys;
mod limits;
mod metrics;
#[cfg(target_os = "linux")]
mod reconnects;
mod recorded;
mod replay;
mod several;
mod shared;
mod shutdown;
mod validation;
mod workers;
