use std::collections::{BTreeMap, BTreeSet};

use prometheus_client::encoding::text::encode;
use tito_runtime::{ShutdownConfig, Tasks, registry};

use super::*;
use crate::status::{Door, Failure, rescue};

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");

/// What `/metrics` shows once everything has happened.
fn everything() -> String {
    let mut registry = registry();
    let hour = Duration::from_secs(3_600);
    let (_sequence, _shutdown, trigger) = ShutdownConfig { unready: hour, drain: hour }.build();
    let _tasks = Tasks::new(trigger, &mut registry);
    let metrics = Metrics::register(&mut registry);
    metrics.route(Route::Generate);
    metrics.request_ended(Route::Live, StatusCode::OK, None);
    let bug = rescue(&Failure::Door(Door::Bug));
    metrics.request_ended(Route::Generate, bug.status, Some(bug.code));
    metrics.disconnected(Delivery::Unary);
    metrics.disconnected(Delivery::Stream);
    for verdict in [Verdict::Granted(tito_formats::Scope::SHARED), Verdict::Missing, Verdict::Wrong] {
        metrics.key_refused(verdict);
    }
    for reloads in [metrics.key_reloads(), metrics.tls_reloads()] {
        reloads.reloaded();
        reloads.failed();
    }
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

/// One row per family, as the document has it.
fn rows(text: &str) -> BTreeSet<String> {
    let mut helps = BTreeMap::new();
    let mut rows = BTreeSet::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            helps.insert(name.to_owned(), help.trim_end_matches('.').to_owned());
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (shown, counted) = match kind {
                "counter" => ("_total", "_total"),
                "histogram" => ("", "_count"),
                _ => ("", ""),
            };
            let labels = label_names(text, &format!("{name}{counted}{{"));
            rows.insert(format!("| `{name}{shown}` | {kind} | {labels} | {} |", helps[name]));
        }
    }
    rows
}

/// The labels of the first sample that starts so.
fn label_names(text: &str, start: &str) -> String {
    let Some(labels) = text.lines().find_map(|line| line.strip_prefix(start)) else {
        return "–".to_owned();
    };
    let inside = labels.split('}').next().unwrap_or_default();
    let names =
        inside.split(',').filter_map(|pair| pair.split_once('=')).map(|(name, _)| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_document_has_exactly_the_families_of_the_code() {
    let ours = rows(&everything());
    let prefixes = ["| `tito_frontend_", "| `tito_runtime_"];
    let documented: BTreeSet<String> = DOCUMENT
        .lines()
        .filter(|line| prefixes.iter().any(|prefix| line.starts_with(prefix)))
        .map(str::to_owned)
        .collect();
    assert!(ours.len() > 15);
    let wanted: Vec<&String> = ours.difference(&documented).collect();
    let stale: Vec<&String> = documented.difference(&ours).collect();
    assert!(wanted.is_empty() && stale.is_empty(), "add {wanted:#?}, remove {stale:#?}");
}

#[test]
fn names_have_base_units_and_one_prefix() {
    for row in rows(&everything()) {
        assert!(row.starts_with("| `tito_frontend_") || row.starts_with("| `tito_runtime_"), "{row}");
        let name = row.split('`').nth(1).unwrap();
        for unit in ["millis", "_ms", "micros", "kilo", "_kb"] {
            assert!(!name.contains(unit), "{name}");
        }
    }
}
