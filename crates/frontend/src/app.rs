//! What the frontend is built from, and what its handlers share.
//!
//! It must not know HTTP messages or JSON: only the engine, the catalog, the formats and the bounds.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tito_engine::BoxEngine;
use tito_formats::{Format, MediaCache, SamplingDefaults};
use tito_runtime::{Reload, Shutdown, Tasks};
use tito_types::Catalog;
use tokio::sync::{Semaphore, watch};

use crate::budget::Budget;
use crate::config::{Limits, Timeouts};
use crate::metrics::{Metrics, RouteMetrics};
use crate::{Operator, Route};

/// What a frontend is built from besides its configuration.
pub struct Parts {
    /// Where every request goes.
    pub engine: BoxEngine,
    /// Who tells operators about the fleet.
    pub operator: Arc<dyn Operator>,
    /// What can be asked for, as of now.
    pub catalog: watch::Receiver<Arc<Catalog>>,
    /// The generation routes.
    pub formats: Vec<FormatRoute>,
    /// The stage of the process.
    pub shutdown: Shutdown,
    /// Asks for the key file to be read again.
    pub reload: Reload,
    /// Where tasks begin.
    pub tasks: Tasks,
}

/// One generation route: POST only.
pub struct FormatRoute {
    /// Where it is served, such as `/inference/v1/generate`.
    pub path: &'static str,
    /// Its name in metrics and logs.
    pub route: Route,
    /// What its bodies mean.
    pub format: Box<dyn Format>,
}

/// What handlers share.
pub(crate) struct App {
    pub(crate) engine: BoxEngine,
    pub(crate) operator: Arc<dyn Operator>,
    pub(crate) catalog: watch::Receiver<Arc<Catalog>>,
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
    pub(crate) shutdown: Shutdown,
    pub(crate) tasks: Tasks,
    /// Bounds the bodies of orders, all together.
    pub(crate) order_bodies: Arc<Budget>,
    /// Bounds the orders that are carried out.
    pub(crate) orders: Arc<Semaphore>,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) sampling_defaults: SamplingDefaults,
    pub(crate) strict: bool,
    pub(crate) stream_ping: Option<std::time::Duration>,
    pub(crate) metrics_open: bool,
    /// Bounds the bodies being received or parsed, all together.
    pub(crate) bodies: Arc<Budget>,
    /// Bounds how many large bodies are parsed at a time.
    pub(crate) large_binds: Arc<Semaphore>,
    /// Payloads of media that clients sent before.
    pub(crate) media: Arc<MediaCache>,
    /// When the frontend was built, in seconds since the Unix epoch.
    pub(crate) created_unix_seconds: u64,
}

/// A generation route with its series.
pub(crate) struct Endpoint {
    pub(crate) path: &'static str,
    pub(crate) route: Route,
    pub(crate) format: Box<dyn Format>,
    pub(crate) metrics: Arc<RouteMetrics>,
}

impl App {
    /// The models as of now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.borrow())
    }

    /// Generation requests that have not ended.
    pub(crate) fn generations_in_flight(&self) -> usize {
        let in_flight =
            |endpoint: &Arc<Endpoint>| usize::try_from(endpoint.metrics.in_flight.get()).unwrap_or(0);
        self.endpoints.iter().map(in_flight).sum()
    }

    /// What the path of a client's request asks for, and whether that is generation.
    pub(crate) fn route_of(&self, path: &str) -> (Route, bool) {
        match self.endpoints.iter().find(|endpoint| endpoint.path == path) {
            Some(endpoint) => (endpoint.route, true),
            None => (Route::built_in(path), false),
        }
    }
}

/// Seconds since the Unix epoch; 0 where the clock stands before it.
pub(crate) fn now_unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
