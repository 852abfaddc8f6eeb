//! A pure, seeded simulation of a continuous-batching engine.
//!
//! [`Simulation`] schedules requests in steps as vLLM does: chunked prefill, one token per running sequence
//! and step, a pool of KV blocks with prefix caching, preemption when blocks run out, pause and resume.
//! [`Model`] stands in for the weights: the next id is a function of its seed and of every id before it, so two
//! simulations with one seed continue a sequence identically, wherever the first half of it was made.
//!
//! Nothing here reads a clock, a socket or the environment: the caller passes `now` (time since its own start)
//! and gets values back.

mod blocks;
mod hash;
mod model;
mod request;
mod sampling;
mod simulation;
mod timing;

pub use blocks::{BlockHash, KvEvent, StoredBlocks};
pub use hash::{STEP, fold, hash_bytes, mix, unit};
pub use model::{Candidate, Context, Model, ModelConfig};
pub use request::{Extra, Finish, RequestId, Script, SimRequest, StopCause};
pub use sampling::{Sampler, Sampling};
pub use simulation::{
    Error, PauseMode, SchedulingPolicy, SimConfig, Simulation, Started, Stats, Step, StepOutput, StepToken,
};
pub use timing::{StepLoad, Timing};
