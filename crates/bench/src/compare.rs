//! Several targets under one load, in interleaved rounds.
//!
//! Machines are noisy and drift: a number measured now and one measured a minute later may differ by more than the
//! servers do. So the targets take turns (A, B, A, B, …), each round uses one seed for all of them, and what is
//! compared is the ratio within a round; the median over the rounds is reported.

mod figures;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::config::{self, BenchConfig, Target};
use crate::progress::Progress;
use crate::report::Report;
use crate::run::{Error, run};

/// The result of a comparison. The first target is the one the others are compared with.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Number of rounds.
    pub rounds: u32,
    /// One entry per target, in the order given.
    pub targets: Vec<TargetSummary>,
    /// Every run, in the order it was made.
    pub runs: Vec<Report>,
}

/// What the rounds say about one target. Keys are the report's, with a dot (`e2e_ms.p99`).
#[derive(Debug, Clone, Serialize)]
pub struct TargetSummary {
    /// Its name.
    pub name: String,
    /// Median over the rounds.
    pub median: BTreeMap<&'static str, f64>,
    /// Median over the rounds of this target's value divided by the first target's in the same round.
    pub ratio: BTreeMap<&'static str, f64>,
}

impl Comparison {
    /// True when every run was.
    pub fn ok(&self) -> bool {
        self.runs.iter().all(Report::ok)
    }

    /// Summarises runs made in rounds of `targets` runs each.
    fn new(rounds: u32, targets: usize, runs: Vec<Report>) -> Self {
        let figures: Vec<_> = runs.iter().map(figures::of).collect();
        let summaries = (0..targets).map(|target| {
            let mut values: BTreeMap<_, Vec<f64>> = BTreeMap::new();
            let mut ratios: BTreeMap<_, Vec<f64>> = BTreeMap::new();
            for round in figures.chunks_exact(targets) {
                for (key, value) in &round[target] {
                    values.entry(*key).or_default().push(*value);
                    let base = round[0].get(key).filter(|base| **base > 0.0);
                    ratios.entry(*key).or_default().extend(base.map(|base| value / base));
                }
            }
            TargetSummary {
                name: runs[target].target.name.clone(),
                median: medians(values),
                ratio: medians(ratios),
            }
        });
        Self { rounds, targets: summaries.collect(), runs }
    }
}

/// Measures `config.target` and each of `others` once per round. Round r uses the seed `config.workload.seed + r`, so
/// that no round asks what an earlier one left in a prefix cache.
pub async fn compare(
    config: &BenchConfig,
    others: &[Target],
    rounds: u32,
    progress: &Arc<dyn Progress>,
) -> Result<Comparison, Error> {
    config::rounds(rounds).map_err(Error::Config)?;
    let targets: Vec<_> = std::iter::once(&config.target).chain(others).collect();
    let of = |target: &Target, round: u32| {
        let mut config = BenchConfig { target: target.clone(), ..config.clone() };
        config.workload.seed = config.workload.seed.wrapping_add(u64::from(round));
        config.target.name = format!("{} {}/{rounds}", target.name, round + 1);
        config
    };
    for target in &targets {
        of(target, 0).check().map_err(Error::Config)?;
    }
    let mut runs = Vec::new();
    for round in 0..rounds {
        for target in &targets {
            let mut report = run(&of(target, round), progress).await?;
            report.target.name.clone_from(&target.name);
            runs.push(report);
        }
    }
    Ok(Comparison::new(rounds, targets.len(), runs))
}

fn medians(values: BTreeMap<&'static str, Vec<f64>>) -> BTreeMap<&'static str, f64> {
    values.into_iter().filter_map(|(key, values)| Some((key, median(values)?))).collect()
}

/// The middle value, or the mean of the two in the middle; none of nothing.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests;
