//! Metrics that nothing outside the process can move, or not by an exact amount: the tests that do it from within.

/// Family, the file of its test, and the assertion there.
pub(super) const ASSERTIONS: &[(&str, &str, &str)] = &[
    (
        "frontend_accept_errors_total",
        include_str!("../../../../frontend/src/server/accept/tests.rs"),
        "metrics.accept_errors.get()), (1, counted)",
    ),
    ("runtime_task_failures_total", TASKS, "assert_eq!(tasks.metrics.failures.get(), 1)"),
    ("runtime_task_panics_total", TASKS, "tasks.metrics.panics.get()), (1, 1)"),
    (
        "fleet_load_unknown_total",
        include_str!("../../../../fleet/src/fleet/tests/load.rs"),
        "load_unknown_total{worker=\\\"a\\\"} 3",
    ),
    ("fleet_kv_skipped_total", FEEDS, "\"skipped\", \"restarts\"];"),
    ("fleet_kv_restarts_total", FEEDS, "\"skipped\", \"restarts\"];"),
    ("fleet_kv_orphans_total", SIZES, "kv_orphans_total{{{labels}}} {orphans}"),
    ("fleet_index_bytes", SIZES, "(\"index_bytes\", stats.bytes as u64)"),
    ("fleet_index_evicted_blocks_total", SIZES, "(\"index_evicted_blocks_total\", stats.evicted)"),
    ("router_predicted_prompts", BOOKED, "predicted_prompts {predicted}"),
    ("router_predicted_refused_total", BOOKED, "predicted_refused_total {refused}"),
];

const BOOKED: &str = include_str!("../../../../router/src/route/tests/booked.rs");
const FEEDS: &str = include_str!("../../../../fleet/src/target/tests.rs");
const SIZES: &str = include_str!("../../../../fleet/src/target/tests/sizes.rs");
const TASKS: &str = include_str!("../../../../runtime/src/tasks/tests.rs");
