//! What operators ask and order, answered by the router.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tito_frontend::Operator;
use tito_router::Route;
use tito_types::{ClearReport, EngineError, GenerateRequest, RouteReport, WorkerId, WorkerReport};

/// The router as the frontend sees it.
pub(crate) struct FleetOperator(pub(crate) Route);

impl Operator for FleetOperator {
    fn workers(&self) -> Vec<WorkerReport> {
        self.0.workers()
    }

    fn explain(&self, request: &GenerateRequest) -> RouteReport {
        self.0.explain(request)
    }

    fn clear_caches(
        &self,
        workers: Vec<WorkerId>,
        running: bool,
    ) -> BoxFuture<'static, Result<Vec<ClearReport>, EngineError>> {
        let route = self.0.clone();
        async move { route.clear_caches(&workers, running).await }.boxed()
    }
}
