//! What an operator may ask: which workers there are, and where a request would go.
//!
//! It must not know what a worker is: it shows what it is told.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use tito_formats::workers_body;
use tito_types::{GenerateRequest, RouteReport, WorkerReport};

use crate::app::App;
use crate::reply;

/// Whoever can tell how the fleet is. Answers at once, from what is known already, and changes nothing.
pub trait Operator: Send + Sync + 'static {
    /// Every worker, ready or not.
    fn workers(&self) -> Vec<WorkerReport>;

    /// Where this request would go now, and why. Nothing is sent, and nothing is charged to anyone.
    fn explain(&self, request: &GenerateRequest) -> RouteReport;
}

/// Every worker with its targets.
pub(crate) async fn workers(State(app): State<Arc<App>>) -> Response {
    reply::json(StatusCode::OK, workers_body(&app.operator.workers()))
}
