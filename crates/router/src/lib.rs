//! Chooses a worker for each request: snapshot → worker → its engine.
//!
//! The choice is pure ([`choose`]); [`Route`] is the thin shell that calls the chosen engine and, when that engine
//! cannot be reached, one other. It must not know HTTP, formats or engine protocols.

mod choose;
mod metrics;
mod route;

pub use choose::choose;
pub use metrics::RouteMetrics;
pub use route::Route;
