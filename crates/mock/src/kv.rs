//! KV events on the wire: what the simulation's prefix cache does, published per rank as vLLM 0.32 does it.
//!
//! A rank's [`Publisher`] names blocks by their digests, encodes one batch per step that changed the cache, and
//! hands it to the sockets of [`wire`]. What was published is in the rank's [`Log`], from which replays are
//! answered and which tests read.

mod batch;
mod digest;
mod encode;
mod endpoint;
mod log;
mod msgpack;
mod origin;
mod publisher;
mod serial;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use batch::names;
pub(crate) use digest::Digester;
pub use endpoint::EndpointError;
pub(crate) use endpoint::check as check_endpoints;
pub use log::KvState;
pub(crate) use log::Log;
pub(crate) use origin::{Lora, MediaSpan, Origin};
pub(crate) use publisher::{Batch, Publisher};
pub use wire::BindError as KvBindError;
pub(crate) use wire::{Sockets, bind};
