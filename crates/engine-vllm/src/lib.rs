//! The adapter from the waist to vLLM's gRPC services (`vllm.Inference`, `vllm.Control`, vLLM 0.32).
//!
//! [`VllmConnector`] reaches one engine address; the engine it yields turns [`GenerateRequest`]s into calls and
//! messages into deltas. Protobuf types do not leave this crate. It must not know HTTP, policy or other engines.
//!
//! [`GenerateRequest`]: tito_types::GenerateRequest

mod adapters;
mod address;
mod config;
mod connect;
mod convert;
mod engine;
mod info;
mod kv;
mod orders;
mod output;
mod stall;
mod status;
#[cfg(feature = "test-util")]
pub mod test_util;

pub use config::{Error, TlsConfig, VllmConfig};
pub use connect::VllmConnector;
