//! What the closing lines of test binaries add up to.

use std::process::ExitStatus;

use crate::stages::Ending;

/// Sums over the closing lines of the test binaries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tally {
    /// Reads a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`; others count nothing.
    pub(crate) fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split("; ") {
            let Some((count, what)) = part.split_once(' ') else { continue };
            let field = match what {
                "passed" => &mut self.passed,
                "failed" => &mut self.failed,
                "ignored" => &mut self.ignored,
                _ => continue,
            };
            *field += count.parse::<u64>().unwrap_or(0);
        }
    }

    /// How a run of tests ended that ended with this status. A run that tests nothing is a broken run.
    pub(crate) fn ending(&self, status: ExitStatus) -> Ending {
        let detail = format!("{} passed, {} failed, {} ignored", self.passed, self.failed, self.ignored);
        if status.success() && self.passed > 0 { Ending::Passed(detail) } else { Ending::Failed(detail) }
    }
}

#[cfg(test)]
mod tests;
