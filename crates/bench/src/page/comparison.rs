//! The picture of a comparison: the distributions of each target, and its throughput round by round.

use std::fmt;

use super::{Side, curve, distribution, lines, panel, picture};
use crate::compare::{Comparison, median};
use crate::percentiles::Curves;
use crate::report::Report;

pub(super) fn draw(out: &mut String, comparison: &Comparison) -> fmt::Result {
    let names: Vec<_> = comparison.targets.iter().map(|target| target.name.clone()).collect();
    let title = format!("{} rounds: {}", comparison.rounds, names.join(", "));
    let targets = names.len().max(1);
    picture(out, 2, &title, &names, |out| {
        let runs = |target: usize| comparison.runs.iter().skip(target).step_by(targets);
        let of = |curve: fn(&Curves) -> &[f64]| -> Vec<(usize, Vec<f64>)> {
            (0..names.len()).map(|target| (target, middle(runs(target), curve))).collect()
        };
        for (side, title, curve) in [
            (
                Side::Left,
                "TTFT: share of requests within …, median of the rounds",
                (|curves| &*curves.ttft) as fn(&Curves) -> &[f64],
            ),
            (Side::Right, "E2E latency: the same", |curves| &*curves.e2e),
        ] {
            let curves = of(curve);
            let curves: Vec<_> = curves.iter().map(|(colour, curve)| (*colour, &**curve)).collect();
            distribution(out, &panel(0, side), title, &curves)?;
        }
        let rounds: Vec<Vec<_>> = (0..names.len())
            .map(|target| {
                let rounds = runs(target).zip(1_u32..);
                rounds.map(|(run, round)| (f64::from(round), Some(run.requests_per_s))).collect()
            })
            .collect();
        let rounds: Vec<_> =
            rounds.iter().enumerate().map(|(colour, points)| curve(colour, false, points)).collect();
        lines(out, &panel(1, Side::Whole), "Requests/s by round", &rounds, "")
    })
}

/// Percent by percent the median over the rounds, as far as every round shows it.
fn middle<'a>(runs: impl Iterator<Item = &'a Report>, curve: fn(&Curves) -> &[f64]) -> Vec<f64> {
    let curves: Vec<&[f64]> = runs.map(|run| curve(&run.curves)).collect();
    let length = curves.iter().map(|curve| curve.len()).min().unwrap_or(0);
    let at = |percent: usize| median(&curves.iter().map(|curve| curve[percent]).collect::<Vec<_>>());
    (0..length).filter_map(at).collect()
}
