//! The queue before the engines.

use nix::sys::signal::Signal;

use super::Sheet;
use crate::harness::{MockEngine, Serve};

pub(super) const FAMILIES: &[&str] = &[
    "admission_in_flight",
    "admission_queue_wait_seconds",
    "admission_queued_requests",
    "admission_shed_total",
];

/// Longer than any test.
const NEVER: &str = "1h";

#[tokio::test]
async fn who_waits_who_is_let_in_and_who_is_shed_is_counted() {
    let mut sheet = Sheet::default();
    let engine = MockEngine::start(&[]).await;
    let limits = ["--max-in-flight", "1", "--max-queued", "1"];
    let leaving = ["--queue-timeout", NEVER, "--unready-delay", "0", "--drain-timeout", NEVER];
    let serve = Serve::ready(&[&engine.url()], &[&limits[..], &leaving].concat()).await;
    let shed = |reason: &str| format!("reason=\"{reason}\"");
    engine.pause().await;
    let first = serve.generate("r", 4, true).begin();
    sheet.hold(&serve, "admission_in_flight", &[], 1.0).await;
    let second = serve.generate("r", 4, true).begin();
    sheet.hold(&serve, "admission_queued_requests", &[], 1.0).await;
    for count in [1.0, 2.0] {
        assert_eq!(serve.generate("r", 4, false).send().await.status, 429);
        sheet.hold(&serve, "admission_shed_total", &[&shed("queue_full")], count).await;
    }
    sheet.hold(&serve, "admission_queue_wait_seconds_count", &[], 0.0).await;
    engine.resume().await;
    for asked in [first, second] {
        assert_eq!(asked.reply().await.tokens().len(), 4);
    }
    sheet.hold(&serve, "admission_queue_wait_seconds_count", &[], 1.0).await;
    for gauge in ["admission_in_flight", "admission_queued_requests"] {
        sheet.hold(&serve, gauge, &[], 0.0).await;
    }

    engine.pause().await;
    let runs = serve.generate("r", 4, true).begin();
    sheet.hold(&serve, "admission_in_flight", &[], 1.0).await;
    let waits = serve.generate("r", 4, true).begin();
    sheet.hold(&serve, "admission_queued_requests", &[], 1.0).await;
    serve.process.signal(Signal::SIGTERM);
    assert_eq!(waits.reply().await.status, 503);
    sheet.hold(&serve, "admission_shed_total", &[&shed("draining")], 1.0).await;
    sheet.hold(&serve, "admission_queued_requests", &[], 0.0).await;
    sheet.hold(&serve, "admission_in_flight", &[], 1.0).await;
    engine.resume().await;
    assert_eq!(runs.reply().await.status, 200);

    let hasty = Serve::ready(&[&engine.url()], &["--max-in-flight", "1", "--queue-timeout", "50ms"]).await;
    engine.pause().await;
    let runs = hasty.generate("r", 4, true).begin();
    sheet.hold(&hasty, "admission_in_flight", &[], 1.0).await;
    assert_eq!(hasty.generate("r", 4, true).send().await.status, 429);
    sheet.hold(&hasty, "admission_shed_total", &[&shed("queue_timeout")], 1.0).await;
    engine.resume().await;
    assert_eq!(runs.reply().await.status, 200);
    sheet.end(FAMILIES);
}
