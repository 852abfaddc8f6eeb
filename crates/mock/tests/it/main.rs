//! The mock over real sockets, seen by real clients.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod bounds;
mod cancel;
mod control;
mod doors;
mod faults;
mod generate;
mod kv;
mod raw;
mod replay;
mod routes;
mod support;
mod tls;
