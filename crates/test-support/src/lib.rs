//! What tests of every crate need and would otherwise write again. It is a dev-dependency only, knows no other crate of
//! this workspace, and `cargo xtask tidy` refuses it among the dependencies of anything that is shipped.
//!
//! | to | use |
//! | --- | --- |
//! | wait for a future that must come | [`wait::within`] |
//! | wait for a state in this process | [`wait::wait_until`] |
//! | wait for a state that another process or an async call shows | [`wait::wait_for`] |
//! | wait for a value of a watch channel | [`wait::wait_watch`] |
//! | send one HTTP/1.1 or HTTP/2 request, over TCP or TLS | [`http::Call`] |
//! | leave a request running, or give it up | [`http::Call::begin`]; drop what it returns, or an [`http::Open`], to close its connection |
//! | write the bytes of a request oneself | [`http::Raw`] |
//! | answer gRPC calls with messages as bytes | [`grpc::Server`] |
//! | listen on one port again and again | [`port::ReservedPort`] |
//! | draw random numbers | [`random::Random`]; a failed test prints the seed |
//! | read a recording of the real engine | [`fixtures::grpc`], [`fixtures::json`], [`fixtures::names`] |
//! | make certificates | [`tls::Authority`] |
//!
//! Everything panics with what was expected instead of returning an error: a test has nothing better to do with one. Each
//! wait ends after [`wait::WAIT_LIMIT`], which only a failing test reaches. Nothing binds a fixed port, sleeps or reads the
//! environment.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its tools included")]

pub mod fixtures;
pub mod grpc;
pub mod http;
pub mod port;
pub mod random;
pub mod tls;
pub mod wait;
