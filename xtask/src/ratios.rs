//! `cargo xtask ratios`: costs that do not depend on the machine.
//!
//! Some benchmarks measure a reference beside what they are for, in one process and in turns, and print lines such as
//! `ratio decide-64-targets 0.42`. This command takes the median of a few runs and compares it with `benchmarks/ratios.json`.
//! A ratio above the stored one by more than its tolerance is a regression; one below it by more is worth storing.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace::Workspace;
use crate::{Verdict, process, table};

/// Where the ratios are stored.
const STORED: &str = "benchmarks/ratios.json";
/// The benchmarks that print ratios, for cargo.
const BENCHMARKS: [&[&str]; 2] = [
    &["run", "--quiet", "--release", "--package", "tito-router", "--example", "decide"],
    &["bench", "--quiet", "--package", "tito-frontend", "--bench", "request"],
];
/// Of how many runs the median is taken.
const RUNS: usize = 3;

/// Arguments of `cargo xtask ratios`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Store what is measured now; tolerances stay.
    #[arg(long)]
    store: bool,
}

/// A ratio as it is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stored {
    ratio: f64,
    /// By how much of it a measurement may differ.
    tolerance: f64,
}

/// How a measurement compares with what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Within,
    Better,
    Worse,
    /// Stored, and no benchmark printed it.
    NotMeasured,
    /// Printed, and nothing is stored.
    NotStored,
}

/// Measures, compares and prints a row per ratio.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Verdict> {
    let path = format!("{}/{STORED}", workspace.root);
    let stored = parse(&fs::read_to_string(&path).with_context(|| format!("read {path}"))?)?;
    let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..RUNS {
        for benchmark in BENCHMARKS {
            let mut command = process::cargo(&workspace.root, benchmark);
            let status = process::watched(&mut command, |line| {
                if let Some((name, ratio)) = ratio(line) {
                    samples.entry(name.to_owned()).or_default().push(ratio);
                }
            })?;
            if !status.success() {
                bail!("cargo {} ended with {status}", benchmark.join(" "));
            }
        }
    }
    let measured: BTreeMap<String, f64> =
        samples.into_iter().map(|(name, samples)| (name, median(samples))).collect();
    if args.store {
        fs::write(&path, written(&measured, &stored)).with_context(|| format!("write {path}"))?;
        println!("\nstored in {STORED}");
        return Ok(Verdict::Holds);
    }
    let changes = compare(&measured, &stored);
    print!("\n{}", report(&measured, &stored, &changes));
    Ok(Verdict::of(changes.values().all(|change| matches!(change, Change::Within | Change::Better))))
}

/// The name and the value in a line such as `ratio decide-64-targets 0.42`.
fn ratio(line: &str) -> Option<(&str, f64)> {
    let (name, value) = line.strip_prefix("ratio ")?.split_once(' ')?;
    let value: f64 = value.trim().parse().ok()?;
    (value.is_finite() && value > 0.0).then_some((name, value))
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn compare(measured: &BTreeMap<String, f64>, stored: &BTreeMap<String, Stored>) -> BTreeMap<String, Change> {
    let names = measured.keys().chain(stored.keys());
    names
        .map(|name| {
            let change = match (measured.get(name), stored.get(name)) {
                (Some(now), Some(then)) if *now > then.ratio * (1.0 + then.tolerance) => Change::Worse,
                (Some(now), Some(then)) if *now < then.ratio * (1.0 - then.tolerance) => Change::Better,
                (Some(_), Some(_)) => Change::Within,
                (Some(_), None) => Change::NotStored,
                (None, _) => Change::NotMeasured,
            };
            (name.clone(), change)
        })
        .collect()
}

fn report(
    measured: &BTreeMap<String, f64>,
    stored: &BTreeMap<String, Stored>,
    changes: &BTreeMap<String, Change>,
) -> String {
    let rows: Vec<Vec<String>> = changes
        .iter()
        .map(|(name, change)| {
            let word = match change {
                Change::Within => "holds",
                Change::Better => "better: store it with --store",
                Change::Worse => "WORSE",
                Change::NotMeasured => "NOT MEASURED: no benchmark printed it",
                Change::NotStored => "NOT STORED: store it with --store",
            };
            let (now, then) = (measured.get(name), stored.get(name));
            vec![
                name.clone(),
                then.map_or_else(String::new, |then| format!("{:.3}", then.ratio)),
                then.map_or_else(String::new, |then| format!("{:.0} %", then.tolerance * 100.0)),
                now.map_or_else(String::new, |now| format!("{now:.3}")),
                word.to_owned(),
            ]
        })
        .collect();
    table::markdown(&["ratio", "stored", "tolerance", "measured", "result"], &rows)
}

/// Reads `{"name": {"ratio": 0.42, "tolerance": 0.25}}`.
fn parse(text: &str) -> Result<BTreeMap<String, Stored>> {
    let file: Value = serde_json::from_str(text).with_context(|| format!("read {STORED}"))?;
    let object = file.as_object().with_context(|| format!("{STORED} is not an object"))?;
    object
        .iter()
        .map(|(name, value)| {
            let field = |field: &str| {
                let number = value.get(field).and_then(Value::as_f64).filter(|number| *number > 0.0);
                number.with_context(|| format!("{STORED}: {name} has no positive {field}"))
            };
            Ok((name.clone(), Stored { ratio: field("ratio")?, tolerance: field("tolerance")? }))
        })
        .collect()
}

/// By how much a ratio may differ when nothing else is stored.
const TOLERANCE: f64 = 0.25;

/// The file with these ratios; a name that is stored keeps its tolerance.
fn written(measured: &BTreeMap<String, f64>, stored: &BTreeMap<String, Stored>) -> String {
    let entries: Vec<String> = measured
        .iter()
        .map(|(name, ratio)| {
            let tolerance = stored.get(name).map_or(TOLERANCE, |stored| stored.tolerance);
            format!("  {name:?}: {{ \"ratio\": {ratio:.3}, \"tolerance\": {tolerance} }}")
        })
        .collect();
    format!("{{\n{}\n}}\n", entries.join(",\n"))
}

#[cfg(test)]
mod tests;
