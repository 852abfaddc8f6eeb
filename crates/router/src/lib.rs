//! Chooses a (worker, rank) for each request: snapshot + what targets hold + what is in flight → a target → its engine.
//!
//! The choice is pure, in `tito-policy`; [`Route`] is the shell that looks the prompt up, keeps the board in step with
//! the fleet, waits while every target is at its limit, calls the chosen engine and, when that engine cannot be reached,
//! one other. It must not know HTTP, formats or engine protocols.

mod booking;
mod clear;
mod config;
mod desk;
mod load;
mod metrics;
mod prefix;
mod report;
mod route;
mod silent;
mod view;

pub use config::{RouteConfig, TargetLimit};
pub use metrics::RouteMetrics;
pub use route::Route;
