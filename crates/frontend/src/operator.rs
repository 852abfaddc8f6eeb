//! What an operator may ask and order: which workers there are, where a request would go, that caches be dropped.
//!
//! It must not know what a worker is: it passes on and shows what it is told.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use http::StatusCode;
use http::header::ORIGIN;
use http_body::Body as _;
use tito_formats::{ResetPrefixCache, reset_body, workers_body};
use tito_runtime::Stage;
use tito_types::{ClearReport, EngineError, GenerateRequest, RequestId, RouteReport, WorkerId, WorkerReport};
use tracing::info;

use crate::app::App;
use crate::config::ORDER_BYTES_MAX;
use crate::door::Arrival;
use crate::generate::headers::check_content;
use crate::status::{Door, Failure, rescue};
use crate::{body, reply};

/// Whoever can tell how the fleet is, and steer it.
pub trait Operator: Send + Sync + 'static {
    /// Every worker, ready or not. Answers at once, from what is known already, and changes nothing.
    fn workers(&self) -> Vec<WorkerReport>;

    /// Where this request would go now, and why. Answers at once; nothing is sent, and nothing is charged to anyone.
    fn explain(&self, request: &GenerateRequest) -> RouteReport;

    /// Makes these workers, or all when none is named, drop what they have cached; those with requests in flight only
    /// where `running`. One report per worker, or a refusal of the whole. It is run to its end, whoever asked.
    fn clear_caches(
        &self,
        workers: Vec<WorkerId>,
        running: bool,
    ) -> BoxFuture<'static, Result<Vec<ClearReport>, EngineError>>;
}

/// Every worker with its targets.
pub(crate) async fn workers(State(app): State<Arc<App>>) -> Response {
    reply::json(StatusCode::OK, workers_body(&app.operator.workers()))
}

/// Drops prefix caches, and says what came of it: 200 whatever did, as vLLM does, with `success` in the body.
pub(crate) async fn reset_prefix_cache(State(app): State<Arc<App>>, request: Request) -> Response {
    match reset(&app, request).await {
        Ok(reports) => reply::json(StatusCode::OK, reset_body(&reports)),
        Err(failure) => rescue(&failure).into_response(),
    }
}

async fn reset(app: &Arc<App>, request: Request) -> Result<Vec<ClearReport>, Failure> {
    let (parts, body) = request.into_parts();
    if parts.headers.contains_key(ORIGIN) {
        // A page that the operator happens to look at could otherwise give orders where they need no key.
        let message = "must be absent: orders are not taken from web pages".to_owned();
        return Err(Failure::Door(Door::Header { name: "origin", message }));
    }
    if !body.is_end_stream() {
        check_content(&parts.headers).map_err(Failure::Door)?;
    }
    let body = body::read(app, &parts, body, ORDER_BYTES_MAX, &app.order_bodies).await;
    let body = body.map_err(Failure::Door)?;
    let order = ResetPrefixCache::parse(parts.uri.query().unwrap_or_default(), &body.bytes);
    let ResetPrefixCache { workers, running } = order.map_err(Failure::Refused)?;
    let turn = Arc::clone(&app.orders).try_acquire_owned();
    let turn = turn.map_err(|_| Failure::Door(Door::Underway))?;
    if app.shutdown.stage() >= Stage::Draining {
        return Err(Failure::Engine(EngineError::Draining));
    }
    let clearing = app.operator.clear_caches(workers, running);
    let id = parts.extensions.get::<Arrival>().map(|arrival| arrival.id.clone());
    // A task of its own: what comes of it is booked and logged whether or not anyone waits for the answer.
    let cleared = app.tasks.spawn_owned("reset prefix cache", async move {
        let _turn = turn;
        let outcome = clearing.await;
        let request = id.as_ref().map(RequestId::as_str);
        let workers = outcome.as_ref().map_or(0, Vec::len);
        let failed = outcome.iter().flatten().filter(|report| report.error.is_some()).count();
        info!(target: "access", request, route = "reset_prefix_cache", workers, failed, "order");
        outcome
    });
    let reports = cleared.await.map_err(|_| Failure::Door(Door::Bug))?;
    reports.map_err(Failure::Engine)
}
