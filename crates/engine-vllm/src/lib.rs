//! The adapter from the waist to vLLM's gRPC services (`vllm.Inference`, `vllm.Control`, vLLM 0.32).
//!
//! [`VllmConnector`] reaches one engine address; the engine it yields turns [`GenerateRequest`]s into calls and
//! messages into deltas. Protobuf types do not leave this crate. It must not know policy, other engines or, but for
//! the metrics that tell an engine's load, HTTP.
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
mod load;
mod orders;
mod output;
mod stall;
mod status;
#[cfg(feature = "test-util")]
pub mod test_util;

pub use config::{Error, MetricsAddress, TlsConfig, VllmConfig};
pub use connect::VllmConnector;
