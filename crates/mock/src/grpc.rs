//! The gRPC services.

mod control;
mod health;
mod inference;
mod rl;

pub(crate) use control::{ControlService, ENGINE_VERSION};
pub(crate) use health::HealthService;
pub(crate) use inference::InferenceService;
pub(crate) use rl::reset_caches;

/// Most bytes of a request message. A larger one is OUT_OF_RANGE.
pub(crate) const REQUEST_BYTES_MAX: usize = 32 << 20;
