//! What the rounds of a comparison say about one target: the middle of each number, and how far it wandered.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::figures::{self, Figure};
use crate::report::Report;

/// What the rounds say about one target. Keys are the report's, with a dot (`e2e_ms.p99`). A key is in `median` or in
/// `incomplete`, and in neither where no round gave the number.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TargetSummary {
    /// Its name.
    pub name: String,
    /// Median over all rounds. Lower bounds take part: the median is exact where nothing that they hide could move it.
    pub median: BTreeMap<&'static str, f64>,
    /// Keys whose median is a lower bound.
    pub lower_bounds: BTreeSet<&'static str>,
    /// Rounds that gave the number, where others did not.
    pub incomplete: BTreeMap<&'static str, usize>,
    /// Smallest and largest value over the rounds; absent where the value of a round is a lower bound.
    pub spread: BTreeMap<&'static str, MinMax>,
    /// Median over the rounds of this target's value divided by the first target's in the same round; absent where lower
    /// bounds leave it open.
    pub ratio: BTreeMap<&'static str, f64>,
    /// Smallest and largest of those ratios; absent where one of them is not exact.
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
        let mut values: BTreeMap<_, Vec<Figure>> = BTreeMap::new();
        let mut ratios: BTreeMap<_, Vec<Figure>> = BTreeMap::new();
        for round in rounds {
            let base = figures::of(&round[0]);
            for (key, value) in figures::of(&round[place]) {
                values.entry(key).or_default().push(value);
                let ratio = base.get(key).and_then(|base| value.divided_by(*base));
                ratios.entry(key).or_default().extend(ratio);
            }
        }
        let name = rounds.first().map(|round| round[place].target.name.clone()).unwrap_or_default();
        let mut summary = Self { name, ..Self::default() };
        for (key, values) in values {
            if values.len() == rounds.len() {
                summary.add(key, &values);
            } else {
                summary.incomplete.insert(key, values.len());
            }
        }
        for (key, ratios) in ratios.into_iter().filter(|(_, ratios)| ratios.len() == rounds.len()) {
            let middle = middle(&ratios).filter(Figure::is_exact);
            summary.ratio.extend(middle.map(|ratio| (key, ratio.least)));
            summary.ratio_spread.extend(spread(&ratios).map(|spread| (key, spread)));
        }
        summary
    }

    fn add(&mut self, key: &'static str, values: &[Figure]) {
        let Some(middle) = middle(values) else { return };
        self.median.insert(key, middle.least);
        if !middle.is_exact() {
            self.lower_bounds.insert(key);
        }
        self.spread.extend(spread(values).map(|spread| (key, spread)));
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

/// The median of all, from the smallest to the largest that it can be.
fn middle(figures: &[Figure]) -> Option<Figure> {
    let of = |end: fn(&Figure) -> f64| median(&figures.iter().map(end).collect::<Vec<_>>());
    Some(Figure { least: of(|figure| figure.least)?, most: of(|figure| figure.most)? })
}

/// None where one of them is not exact.
fn spread(figures: &[Figure]) -> Option<MinMax> {
    let exact = figures.iter().all(Figure::is_exact);
    let values: Vec<_> = figures.iter().map(|figure| figure.least).collect();
    MinMax::of(&values).filter(|_| exact)
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
