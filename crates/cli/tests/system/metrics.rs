//! Every metric by value: the page has a row for each family and no others, and for each row a scenario moves the metric
//! and holds it to its exact value.

mod admission;
mod blocks;
mod clients;
mod elsewhere;
mod requests;
mod workers;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::harness::{MockEngine, Serve, wait_for};

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// The families that each scenario moves, by their names in the page. [`Sheet::end`] holds a scenario to its list.
const SCENARIOS: [&[&str]; 5] =
    [requests::FAMILIES, clients::FAMILIES, admission::FAMILIES, workers::FAMILIES, blocks::FAMILIES];

/// What a scenario has held to a value so far.
#[derive(Default)]
struct Sheet {
    /// Whether the value was anything but nothing, by family.
    moved: BTreeMap<String, bool>,
}

impl Sheet {
    /// Waits until the series of a family that have all these labels add up to a value. There must be one: no value is
    /// not nothing.
    async fn hold(&mut self, serve: &Serve, family: &str, labels: &[&str], value: f64) {
        wait_for(&format!("{family} {labels:?} at {value}"), async || {
            let text = serve.get("/metrics").send().await;
            let found = series(text.text(), &format!("tito_{family}"), labels);
            let sum = found.iter().fold(0.0, |sum: f64, value| sum + value);
            (!found.is_empty() && sum.to_bits() == value.to_bits()).then_some(())
        })
        .await;
        self.count(family, value);
    }

    fn count(&mut self, family: &str, value: f64) {
        let family = family.strip_suffix("_count").unwrap_or(family);
        let moved = self.moved.entry(family.to_owned()).or_default();
        *moved |= value != 0.0;
    }

    /// Holds the scenario to the families it says it moves.
    #[track_caller]
    fn end(&self, families: &[&str]) {
        let moved = self.moved.iter().filter(|(_, moved)| **moved).map(|(family, _)| family.as_str());
        let moved: BTreeSet<&str> = moved.collect();
        assert_eq!(moved, families.iter().copied().collect(), "left: moved; right: listed");
    }
}

/// The values of a family's series that have all these labels.
fn series(text: &str, family: &str, labels: &[&str]) -> Vec<f64> {
    text.lines()
        .filter_map(|line| line.strip_prefix(family))
        .filter(|rest| rest.starts_with([' ', '{']) && labels.iter().all(|label| rest.contains(label)))
        .map(|rest| rest.rsplit(' ').next().unwrap().parse().unwrap())
        .collect()
}

/// Name and type of every row of the page.
fn rows() -> BTreeMap<&'static str, &'static str> {
    let row = |line: &'static str| line.strip_prefix("| `tito_")?.split_once("` | ");
    let rows = PAGE.lines().filter_map(row);
    rows.map(|(name, rest)| (name, rest.split_once(" |").unwrap().0)).collect()
}

#[test]
fn every_row_of_the_page_is_held_to_a_value_and_nothing_else_is() {
    let mut held: BTreeSet<&str> = SCENARIOS.concat().into_iter().collect();
    for (family, file, assertion) in elsewhere::ASSERTIONS {
        assert!(file.contains(assertion), "{family}: no `{assertion}` where it is said to be");
        assert!(held.insert(family), "{family} is held to a value here");
    }
    assert_eq!(
        rows().into_keys().collect::<BTreeSet<_>>(),
        held,
        "left: rows of the page; right: held to a value"
    );
}

#[tokio::test]
async fn every_family_a_server_shows_has_its_row() {
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
    let rows = rows();
    let mut seen = Vec::new();
    for family in metrics.text().lines().filter_map(|line| line.strip_prefix("# TYPE tito_")) {
        let (name, kind) = family.split_once(' ').unwrap();
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        assert_eq!(rows.get(name.as_str()), Some(&kind), "the row of tito_{name} in docs/metrics.md");
        seen.push(name);
    }
    for layer in ["frontend_", "admission_", "router_", "fleet_", "runtime_"] {
        assert!(seen.iter().any(|name| name.starts_with(layer)), "no family of {layer} among {seen:?}");
    }
}
