//! The cases, one file per area. Their names are the suite's test names.

pub(crate) mod abort;
pub(crate) mod cache;
pub(crate) mod cancel;
pub(crate) mod deadline;
pub(crate) mod discovery;
pub(crate) mod end_of_life;
pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod features_off;
pub(crate) mod greedy;
pub(crate) mod health;
pub(crate) mod logprobs;
pub(crate) mod metadata;
pub(crate) mod pass_through;
pub(crate) mod pause;
pub(crate) mod sampling;
pub(crate) mod scheduling;
pub(crate) mod scripted;
pub(crate) mod stopping;
pub(crate) mod structured;
pub(crate) mod transport;
pub(crate) mod weights;
