//! What operators ask, answered by the router.

use tito_frontend::Operator;
use tito_router::Route;
use tito_types::{GenerateRequest, RouteReport, WorkerReport};

/// The router as the frontend sees it.
pub(crate) struct FleetOperator(pub(crate) Route);

impl Operator for FleetOperator {
    fn workers(&self) -> Vec<WorkerReport> {
        self.0.workers()
    }

    fn explain(&self, request: &GenerateRequest) -> RouteReport {
        self.0.explain(request)
    }
}
