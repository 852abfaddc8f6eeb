//! What became known of each mutant of one commit, in a file, so that a run that was stopped goes on where it was.
//!
//! A line is `outcome TAB crate TAB name`; a later line about a mutant replaces an earlier one.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// How the tests ended with a mutant in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test of its own crate failed.
    Caught,
    /// A test of the whole stack failed, after its own crate's tests had passed.
    CaughtAbove,
    /// A test did not end in time, twice.
    Hung,
    /// A test did not end in time, once.
    TimedOut,
    /// The tests of its own crate passed; those of the whole stack have not been run.
    MissedByOwn,
    /// Every test passed.
    Missed,
    /// It does not compile, so it is no mutant of the sample.
    Unviable,
}

impl Outcome {
    const ALL: [Self; 7] = [
        Self::Caught,
        Self::CaughtAbove,
        Self::Hung,
        Self::TimedOut,
        Self::MissedByOwn,
        Self::Missed,
        Self::Unviable,
    ];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::CaughtAbove => "caught-above",
            Self::Hung => "hung",
            Self::TimedOut => "timed-out",
            Self::MissedByOwn => "missed-by-own",
            Self::Missed => "missed",
            Self::Unviable => "unviable",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.word() == word)
    }
}

/// The outcomes of one commit, in memory and in their file.
pub(super) struct Record {
    path: PathBuf,
    outcomes: BTreeMap<String, Outcome>,
}

impl Record {
    /// Reads the file; an absent one is an empty record.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let text = if path.exists() {
            fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?
        } else {
            String::new()
        };
        let mut outcomes = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.splitn(3, '\t');
            let outcome = fields.next().and_then(Outcome::parse);
            let (Some(outcome), Some(_), Some(name)) = (outcome, fields.next(), fields.next()) else {
                bail!("{} is damaged, delete it: `{line}`", path.display());
            };
            outcomes.insert(name.to_owned(), outcome);
        }
        Ok(Self { path: path.to_owned(), outcomes })
    }

    pub(super) fn get(&self, name: &str) -> Option<Outcome> {
        self.outcomes.get(name).copied()
    }

    pub(super) fn set(&mut self, package: &str, name: &str, outcome: Outcome) -> Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| writeln!(file, "{}\t{package}\t{name}", outcome.word()))
            .with_context(|| format!("write {}", self.path.display()))?;
        self.outcomes.insert(name.to_owned(), outcome);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
