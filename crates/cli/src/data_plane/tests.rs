use std::time::Duration;

use prometheus_client::encoding::text::encode_registry;
use tito_fleet::FleetMetrics;
use tito_kv_index::IndexConfig;
use tito_policy::PolicyKind;

use super::*;

/// The page that lists every series.
const PAGE: &str = include_str!("../../../../docs/metrics.md");

#[test]
fn every_family_of_the_data_plane_has_its_row_in_the_page() {
    let mut registry = tito_runtime::registry();
    FleetMetrics::register(registry.sub_registry_with_prefix("fleet"));
    let (_fleet, snapshot) = watch::channel(Arc::new(Snapshot::default()));
    let admission =
        AdmitConfig { in_flight_max: 1, queue_requests_max: 1, queue_timeout: Duration::from_secs(1) };
    let routing = RouteConfig::new(PolicyKind::Kv, 0);
    let blocks = Arc::new(Blocks::new(IndexConfig { bytes_max: 16 << 20 }, 0));
    blocks.register(registry.sub_registry_with_prefix("fleet"));
    data_plane(snapshot, blocks, routing, admission, CancellationToken::new(), &mut registry);

    let mut text = String::new();
    encode_registry(&mut text, &registry).expect("a string takes everything");
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut seen = 0;
    for family in families {
        let (name, kind) = family.split_once(' ').expect("a type line has a name and a type");
        let suffix = if kind == "counter" { "_total" } else { "" };
        let row = format!("| `{name}{suffix}` | {kind} |");
        assert!(PAGE.contains(&row), "docs/metrics.md has no row {row}");
        seen += 1;
    }
    // A family with labels shows itself once it has counted something; the system tests see those.
    assert!(seen >= 4, "only {seen} families were shown");
}
