//! Liveness, and readiness as the catalog and the shutdown stage make it.
//!
//! It must not know engines: the catalog already says which models can be served, and why others cannot.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use tito_formats::{live_body, not_ready_body, ready_body};
use tito_runtime::Stage;

use crate::app::App;
use crate::reply;
use crate::status::{Door, Failure, rescue};

/// Whether the process runs. True as long as anyone can ask.
pub(crate) async fn live() -> Response {
    reply::json(StatusCode::OK, live_body())
}

/// Whether requests should be sent here: a listed model can be served, and we are not on our way out.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let catalog = app.catalog();
    let models: Vec<&str> = catalog.routable().map(|model| model.names[0].as_str()).collect();
    let mut reasons = Vec::new();
    if app.shutdown.stage() != Stage::Serving {
        reasons.push("draining");
    }
    if models.is_empty() {
        reasons.extend(catalog.reasons.iter().map(String::as_str));
        if catalog.reasons.is_empty() {
            reasons.push("no engine has been reached yet");
        }
    }
    if reasons.is_empty() {
        return reply::json(StatusCode::OK, ready_body(&models, &catalog.reasons));
    }
    let told = rescue(&Failure::Door(Door::NotReady));
    let body = not_ready_body(&reasons, &told.message, told.kind.as_str(), told.code.as_str());
    told.with_body(body)
}
