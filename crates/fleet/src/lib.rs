//! Which engines exist, what they can do and whether they are ready, as one immutable [`Snapshot`].
//!
//! The [`Fleet`] keeps one connection per configured engine and publishes a new snapshot at every change. Readers
//! never wait for it. It must not know routing, HTTP or any engine's protocol.

mod fleet;
mod metrics;
mod snapshot;

pub use fleet::{Fleet, FleetConfig, Wrap};
pub use metrics::FleetMetrics;
pub use snapshot::{InFlight, Load, Snapshot, State, Worker};
