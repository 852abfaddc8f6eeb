//! The one place where the layers are put together.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tito_dataplane::{Admit, AdmitConfig, AdmitMetrics, Fanout};
use tito_engine::BoxEngine;
use tito_fleet::{Blocks, Snapshot, Wrap};
use tito_router::{Route, RouteConfig, RouteMetrics};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Outside in: let in, then choose a worker. Migration and disaggregation will stand between the two. The router comes
/// back beside the whole, for what operators ask of it.
pub(crate) fn data_plane(
    fleet: watch::Receiver<Arc<Snapshot>>,
    blocks: Arc<Blocks>,
    routing: RouteConfig,
    admission: AdmitConfig,
    draining: CancellationToken,
    registry: &mut Registry,
) -> (BoxEngine, Route) {
    let route_metrics = RouteMetrics::register(registry.sub_registry_with_prefix("router"));
    let admit_metrics = AdmitMetrics::register(registry.sub_registry_with_prefix("admission"));
    let route = Route::new(fleet, blocks, routing, route_metrics);
    route.register(registry.sub_registry_with_prefix("router"));
    let engine = Admit::new(route.clone(), admission, draining, admit_metrics);
    (BoxEngine::new(engine), route)
}

/// What belongs to one engine: several continuations of a request run on the engine that was chosen for it.
pub(crate) fn per_engine() -> Wrap {
    Box::new(|info, engine| BoxEngine::new(Fanout::new(engine, info.identity.n_max())))
}

#[cfg(test)]
mod tests;
