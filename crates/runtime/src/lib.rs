//! What every component is given rather than makes: tasks with owners, the shutdown sequence, signals, telemetry and
//! the metric registry.
//!
//! Nothing here knows requests, engines or HTTP, and nothing here is process-wide except what the operating system
//! and the log make so: [`Signals`] and [`telemetry::init`] are for the binary, everything else can exist twice.

mod chain;
mod metrics;
mod reload;
mod shutdown;
mod signals;
mod tasks;
pub mod telemetry;

pub use chain::Chain;
pub use metrics::registry;
pub use reload::{Reload, ReloadTrigger, reload};
pub use shutdown::{DRAIN, Sequence, Shutdown, ShutdownConfig, Stage, Trigger, UNREADY};
pub use signals::Signals;
pub use tasks::{OnError, Tasks};
