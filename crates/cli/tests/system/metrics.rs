//! Every series that a working server shows has its row in the page.

use serde_json::json;

use crate::harness::{MockEngine, Serve};

const PAGE: &str = include_str!("../../../../docs/metrics.md");

#[tokio::test]
async fn every_family_a_server_shows_is_documented() {
    let (engine, other) = (MockEngine::start(&[]).await, MockEngine::start(&[]).await);
    let serve =
        Serve::ready(&[&engine.url(), &other.url()], &["--max-in-flight", "1", "--max-queued", "0"]).await;
    for one in [&engine, &other] {
        one.fault(&json!({"kind": "stall", "at_token": 1, "request": "held"})).await;
    }
    let held = serve.generate("held", 4, true).open().await;
    assert_eq!(serve.generate("shed", 4, false).send().await.status, 429);
    drop(held);
    serve.wait_metric("tito_admission_in_flight", &[], 0.0).await;
    for stream in [false, true] {
        assert_eq!(serve.generate("served", 4, stream).send().await.status, 200);
    }
    let metrics = serve.get("/metrics").send().await;
    let mut seen = Vec::new();
    for family in metrics.text().lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = family.split_once(' ').unwrap();
        let suffix = if kind == "counter" { "_total" } else { "" };
        let row = format!("| `{name}{suffix}` | {kind} |");
        assert!(PAGE.contains(&row), "docs/metrics.md has no row {row}");
        seen.push(name);
    }
    for layer in ["tito_frontend_", "tito_admission_", "tito_router_", "tito_fleet_", "tito_runtime_"] {
        assert!(seen.iter().any(|name| name.starts_with(layer)), "no family of {layer} among {seen:?}");
    }
}
