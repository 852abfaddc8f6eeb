//! A comparison as a reader in a terminal wants it: one line per number, one column per target.

use std::collections::BTreeSet;
use std::fmt;

use super::{LoadLine, WorkloadLine};
use crate::compare::{Comparison, TargetSummary};
use crate::report::Report;
use crate::verdict::RunVerdict;

/// Characters of the column that names the number.
const KEY_WIDTH: usize = 22;
/// Characters of a target's column: median, spread and ratio.
const TARGET_WIDTH: usize = 34;
/// Runs that are counted above the medians, the worst first.
const COUNTED: [RunVerdict; 3] = [RunVerdict::Invalid, RunVerdict::Failed, RunVerdict::Late];

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(report) = self.runs.first() {
            writeln!(f, "{}", WorkloadLine(&report.workload))?;
            writeln!(f, "{}", LoadLine(report.load))?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "WARNING      {warning}"))?;
        self.stopped.iter().try_for_each(|reason| writeln!(f, "FAILED       {reason}"))?;
        for target in 0..self.targets.len() {
            self.count(f, target)?;
        }
        self.medians(f)?;
        for target in 0..self.targets.len() {
            self.first_bad(f, target)?;
        }
        Ok(())
    }
}

impl Comparison {
    fn medians(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.targets.first() else { return Ok(()) };
        writeln!(
            f,
            "medians of {} rounds ± half their range; × is against {}, per round",
            self.rounds, first.name
        )?;
        write!(f, "{:KEY_WIDTH$}", "")?;
        self.targets.iter().try_for_each(|target| write!(f, "{:>TARGET_WIDTH$}", target.name))?;
        writeln!(f)?;
        let keys =
            self.targets.iter().flat_map(|target| target.median.keys().chain(target.incomplete.keys()));
        for key in keys.copied().collect::<BTreeSet<_>>() {
            write!(f, "{key:<KEY_WIDTH$}")?;
            let cell = |target| cell(target, key, self.rounds);
            self.targets.iter().try_for_each(|target| write!(f, "{:>TARGET_WIDTH$}", cell(target)))?;
            writeln!(f)?;
        }
        if self.targets.iter().any(|target| !target.lower_bounds.is_empty()) {
            writeln!(f, "{:KEY_WIDTH$}> at least: in too many rounds failed requests hide the value", "")?;
        }
        Ok(())
    }

    fn runs_of(&self, target: usize) -> impl Iterator<Item = &Report> {
        self.runs.iter().skip(target).step_by(self.targets.len())
    }

    /// How many runs of a target are not what they should be, and why the first of them.
    fn count(&self, f: &mut fmt::Formatter<'_>, target: usize) -> fmt::Result {
        for verdict in COUNTED {
            let mut runs = self.runs_of(target).filter(|run| run.verdict == verdict);
            let Some(first) = runs.next() else { continue };
            let (count, rounds, name) = (1 + runs.count(), self.rounds, &self.targets[target].name);
            write!(f, "{:<12} {count} of {rounds} runs of {name}", verdict.word())?;
            match super::troubles(first).into_iter().find(|(word, _)| *word == verdict.word()) {
                Some((_, reason)) => writeln!(f, ": {reason}")?,
                None => writeln!(f, ": no request succeeded")?,
            }
        }
        Ok(())
    }

    /// The first run of a target that may not be used; the others are in the JSON.
    fn first_bad(&self, f: &mut fmt::Formatter<'_>, target: usize) -> fmt::Result {
        let Some(first) = self.runs_of(target).find(|run| !run.ok()) else { return Ok(()) };
        writeln!(f, "\nthe first of them:\n{first}")
    }
}

fn cell(target: &TargetSummary, key: &str, rounds: u32) -> String {
    if let Some(gave) = target.incomplete.get(key) {
        return format!("{gave} of {rounds} rounds");
    }
    let Some(median) = target.median.get(key).copied() else { return "–".to_owned() };
    let bound = if target.lower_bounds.contains(key) { ">" } else { "" };
    let percent = target.spread.get(key).and_then(|spread| spread.percent_of(median));
    let percent = percent.map_or(String::new(), |percent| format!("±{percent:.1} %"));
    let ratio = target.ratio.get(key).map_or(String::new(), |ratio| format!("×{ratio:.3}"));
    format!("{bound}{median:.3} {percent:>8} {ratio:>8}")
}
