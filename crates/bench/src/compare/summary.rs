//! What the rounds of a comparison say about one target: the middle of each number, and how far it wandered.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures;
use crate::report::Report;

/// What the rounds say about one target. Keys are the report's, with a dot (`e2e_ms.p99`).
#[derive(Debug, Clone, Serialize)]
pub struct TargetSummary {
    /// Its name.
    pub name: String,
    /// Median over the rounds.
    pub median: BTreeMap<&'static str, f64>,
    /// Smallest and largest value over the rounds.
    pub spread: BTreeMap<&'static str, MinMax>,
    /// Median over the rounds of this target's value divided by the first target's in the same round.
    pub ratio: BTreeMap<&'static str, f64>,
    /// Smallest and largest of those ratios.
    pub ratio_spread: BTreeMap<&'static str, MinMax>,
}

/// The range that a number took over the rounds, in the number's own unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MinMax {
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl TargetSummary {
    /// Summarises the target at `place` of each round.
    pub(super) fn new(place: usize, rounds: &[&[Report]]) -> Self {
        let mut values: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        let mut ratios: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for round in rounds {
            let base = figures::of(&round[0]);
            for (key, value) in figures::of(&round[place]) {
                values.entry(key).or_default().push(value);
                let base = base.get(key).filter(|base| **base > 0.0);
                ratios.entry(key).or_default().extend(base.map(|base| value / base));
            }
        }
        Self {
            name: rounds.first().map(|round| round[place].target.name.clone()).unwrap_or_default(),
            median: of_each(&values, median),
            spread: of_each(&values, MinMax::of),
            ratio: of_each(&ratios, median),
            ratio_spread: of_each(&ratios, MinMax::of),
        }
    }
}

impl MinMax {
    /// None of nothing.
    fn of(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { min, max })
    }

    /// Half the range as a share of the median, in percent: what is written after ±. None around zero.
    pub(crate) fn percent_of(self, median: f64) -> Option<f64> {
        (median != 0.0).then(|| (self.max - self.min) / 2.0 / median.abs() * 100.0)
    }
}

fn of_each<T>(
    values: &BTreeMap<&'static str, Vec<f64>>,
    statistic: impl Fn(&[f64]) -> Option<T>,
) -> BTreeMap<&'static str, T> {
    values.iter().filter_map(|(key, values)| Some((*key, statistic(values)?))).collect()
}

/// The middle value, or the mean of the two in the middle; none of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests;
