//! The registry under which every family is named, and what tasks count in it.
//!
//! It must not know the metrics of other crates: each registers its own.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// The registry of one process, or of one test: every family in it is named `tito_…`.
pub fn registry() -> Registry {
    Registry::with_prefix("tito")
}

/// What became of tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskMetrics {
    pub(crate) panics: Counter,
    pub(crate) failures: Counter,
}

impl TaskMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("runtime");
        registry.register("task_panics", "Tasks that panicked; each one is a bug", metrics.panics.clone());
        registry.register("task_failures", "Tasks that ended with an error", metrics.failures.clone());
        metrics
    }
}
