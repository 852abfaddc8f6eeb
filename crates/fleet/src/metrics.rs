use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tito_types::WorkerId;

/// What the fleet counts. Workers are configured by name, so the label is bounded by the configuration.
#[derive(Debug, Clone)]
pub struct FleetMetrics {
    ready: Family<WorkerLabels, Gauge>,
    connections: Family<WorkerLabels, Counter>,
    losses: Family<WorkerLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerLabels {
    worker: String,
}

impl FleetMetrics {
    /// The caller passes the registry for `fleet_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics =
            Self { ready: Family::default(), connections: Family::default(), losses: Family::default() };
        registry.register(
            "worker_ready",
            "1 while requests may be sent to the worker",
            metrics.ready.clone(),
        );
        registry.register(
            "worker_connections",
            "Times the worker was reached and accepted",
            metrics.connections.clone(),
        );
        registry.register(
            "worker_losses",
            "Times a ready worker stopped being healthy",
            metrics.losses.clone(),
        );
        metrics
    }

    pub(crate) fn unreached(&self, worker: &WorkerId) {
        self.ready.get_or_create(&labels(worker)).set(0);
    }

    pub(crate) fn accepted(&self, worker: &WorkerId) {
        self.ready.get_or_create(&labels(worker)).set(1);
        self.connections.get_or_create(&labels(worker)).inc();
    }

    pub(crate) fn lost(&self, worker: &WorkerId) {
        self.ready.get_or_create(&labels(worker)).set(0);
        self.losses.get_or_create(&labels(worker)).inc();
    }
}

fn labels(worker: &WorkerId) -> WorkerLabels {
    WorkerLabels { worker: worker.as_str().to_owned() }
}
