//! Which engines exist, what they can do and whether they are ready, as one immutable [`Snapshot`].
//!
//! The [`Fleet`] keeps one connection per configured engine and publishes a new snapshot at every change. What each
//! (worker, rank) holds is in [`Blocks`], fed by the engines. Readers wait for neither. It must not know routing, HTTP
//! or any engine's protocol.

mod blocks;
mod clear;
mod fleet;
mod halt;
mod metrics;
mod snapshot;
mod target;

pub use blocks::Blocks;
pub use clear::ClearError;
pub use fleet::{Fleet, FleetConfig, Wrap};
pub use halt::{Halt, Whose};
pub use metrics::FleetMetrics;
pub use snapshot::{Snapshot, State, Worker};
pub use target::{LOAD_HOLDS, Target, TargetId, ToldLoad};
pub use tito_kv_index::Generations;
