//! A comparison as a reader in a terminal wants it: one line per number, one column per target.

use std::fmt;

use super::{LoadLine, WorkloadLine};
use crate::compare::{Comparison, TargetSummary};

/// Characters of the column that names the number.
const KEY_WIDTH: usize = 22;
/// Characters of a target's column: median, spread and ratio.
const TARGET_WIDTH: usize = 34;

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(report) = self.runs.first() {
            writeln!(f, "{}", WorkloadLine(&report.workload))?;
            writeln!(f, "{}", LoadLine(report.load))?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "WARNING      {warning}"))?;
        let Some(first) = self.targets.first() else { return Ok(()) };
        writeln!(
            f,
            "medians of {} rounds ± half their range; × is against {}, per round",
            self.rounds, first.name
        )?;
        write!(f, "{:KEY_WIDTH$}", "")?;
        self.targets.iter().try_for_each(|target| write!(f, "{:>TARGET_WIDTH$}", target.name))?;
        writeln!(f)?;
        for key in first.median.keys() {
            write!(f, "{key:<KEY_WIDTH$}")?;
            self.targets.iter().try_for_each(|target| write!(f, "{:>TARGET_WIDTH$}", cell(target, key)))?;
            writeln!(f)?;
        }
        for index in 0..self.targets.len() {
            self.failed(f, index)?;
        }
        Ok(())
    }
}

impl Comparison {
    /// How many runs of a target failed, and the first of them; the others are in the JSON.
    fn failed(&self, f: &mut fmt::Formatter<'_>, target: usize) -> fmt::Result {
        let runs = self.runs.iter().skip(target).step_by(self.targets.len());
        let failed: Vec<_> = runs.filter(|report| !report.ok()).collect();
        let Some(first) = failed.first() else { return Ok(()) };
        let (count, rounds, name) = (failed.len(), self.rounds, &self.targets[target].name);
        writeln!(f, "\nFAILED       {count} of {rounds} runs of {name}, first:\n{first}")
    }
}

fn cell(target: &TargetSummary, key: &str) -> String {
    let Some(median) = target.median.get(key).copied() else { return "–".to_owned() };
    let percent = target.spread.get(key).and_then(|spread| spread.percent_of(median));
    let percent = percent.map_or(String::new(), |percent| format!("±{percent:.1} %"));
    let ratio = target.ratio.get(key).map_or(String::new(), |ratio| format!("×{ratio:.3}"));
    format!("{median:.3} {percent:>8} {ratio:>8}")
}
