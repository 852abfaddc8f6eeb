use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tito_types::WorkerId;

/// What the router counts. Workers are configured by name, so the label is bounded by the configuration.
#[derive(Debug, Clone)]
pub struct RouteMetrics {
    dispatches: Family<DispatchLabels, Counter>,
    no_worker: Counter,
}

/// Which contact this was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Contact {
    First,
    Second,
}

impl EncodeLabelValue for Contact {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        let word = match self {
            Self::First => "first",
            Self::Second => "second",
        };
        word.encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DispatchLabels {
    worker: String,
    contact: Contact,
}

impl RouteMetrics {
    /// The caller passes the registry for `router_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self { dispatches: Family::default(), no_worker: Counter::default() };
        let text = "Requests sent to a worker; the second contact follows a first that was not reached";
        registry.register("dispatches", text, metrics.dispatches.clone());
        registry.register("no_worker", "Requests for which no worker was left", metrics.no_worker.clone());
        metrics
    }

    pub(crate) fn dispatched(&self, worker: &WorkerId, contact: Contact) {
        let labels = DispatchLabels { worker: worker.as_str().to_owned(), contact };
        self.dispatches.get_or_create(&labels).inc();
    }

    pub(crate) fn no_worker(&self) {
        self.no_worker.inc();
    }
}
