//! A run of named stages: each one's result and time is printed as it ends, then a table, then one line that says what was
//! not shown.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::{Verdict, table};

/// A part of a run, in the order of its enum.
pub(crate) trait Stage: Copy + PartialEq {
    /// What the user calls it.
    fn name(self) -> &'static str;
}

/// How a stage ended, with a detail for the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Passed(String),
    Failed(String),
    /// A tool or a service that the stage needs is missing; the reason names it.
    Skipped(String),
}

impl Ending {
    pub(crate) fn of(passed: bool) -> Self {
        if passed { Self::Passed(String::new()) } else { Self::Failed(String::new()) }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Passed(_) => "passed",
            Self::Failed(_) => "FAILED",
            Self::Skipped(_) => "skipped",
        }
    }

    fn detail(&self) -> &str {
        match self {
            Self::Passed(detail) | Self::Failed(detail) | Self::Skipped(detail) => detail,
        }
    }
}

/// A stage that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Done<S> {
    stage: S,
    ending: Ending,
    took: Duration,
}

/// The stages that were asked for and what became known of them.
#[derive(Debug)]
pub(crate) struct Run<S> {
    /// The command, such as `verify`.
    command: &'static str,
    asked: Vec<S>,
    /// Stages of the command that were not asked for.
    left_out: usize,
    done: Vec<Done<S>>,
}

impl<S: Stage> Run<S> {
    /// Performs those of `all` that `wanted` names, every one when it names none, up to the first failure unless told to
    /// keep going. An error of `perform` is a failure.
    pub(crate) fn play(
        command: &'static str,
        all: &[S],
        wanted: &[S],
        keep_going: bool,
        mut perform: impl FnMut(S) -> Result<Ending>,
    ) -> Self {
        let asked: Vec<S> =
            all.iter().copied().filter(|stage| wanted.is_empty() || wanted.contains(stage)).collect();
        let mut run = Self { command, left_out: all.len() - asked.len(), asked, done: Vec::new() };
        for stage in run.asked.clone() {
            println!("=== {}", stage.name());
            let began = Instant::now();
            let ending = perform(stage).unwrap_or_else(|error| Ending::Failed(format!("{error:#}")));
            let done = Done { stage, ending, took: began.elapsed() };
            println!("=== {}", done.line());
            let failed = matches!(done.ending, Ending::Failed(_));
            run.done.push(done);
            if failed && !keep_going {
                break;
            }
        }
        run
    }

    /// Broken when a stage failed, partial when one was skipped.
    pub(crate) fn verdict(&self) -> Verdict {
        if self.any(|ending| matches!(ending, Ending::Failed(_))) {
            Verdict::Broken
        } else if self.any(|ending| matches!(ending, Ending::Skipped(_))) {
            Verdict::Partial
        } else {
            Verdict::Holds
        }
    }

    /// A row per stage that was asked for, and the closing line.
    pub(crate) fn report(&self) -> String {
        let rows: Vec<Vec<String>> = self.asked.iter().map(|stage| self.row(*stage)).collect();
        let table = table::markdown(&["stage", "result", "seconds", "detail"], &rows);
        format!("{table}{}\n", self.closing_line())
    }

    /// "everything holds" is said only of a run in which every stage of the command ran and passed.
    fn closing_line(&self) -> String {
        let mut facts = Vec::new();
        match self.verdict() {
            Verdict::Broken => {
                facts.push(format!("FAILED: {}", self.list(|ending| matches!(ending, Ending::Failed(_)))));
            }
            Verdict::Holds if self.left_out == 0 => facts.push("everything holds".to_owned()),
            Verdict::Holds | Verdict::Partial => facts.push("holds".to_owned()),
        }
        let skipped = self.list(|ending| matches!(ending, Ending::Skipped(_)));
        if !skipped.is_empty() {
            facts.push(format!("skipped: {skipped}"));
        }
        if self.left_out > 0 {
            facts.push(format!("stages not asked for: {}", self.left_out));
        }
        format!("{}: {}", self.command, facts.join(", "))
    }

    fn row(&self, stage: S) -> Vec<String> {
        let Some(done) = self.done.iter().find(|done| done.stage == stage) else {
            return vec![stage.name().to_owned(), "not reached".to_owned()];
        };
        let seconds = format!("{:.1}", done.took.as_secs_f64());
        let (word, detail) = (done.ending.word().to_owned(), done.ending.detail().to_owned());
        vec![stage.name().to_owned(), word, seconds, detail]
    }

    /// The stages that ended so, each with its detail in parentheses.
    fn list(&self, which: impl Fn(&Ending) -> bool) -> String {
        let named = self.done.iter().filter(|done| which(&done.ending)).map(Done::named);
        named.collect::<Vec<_>>().join(", ")
    }

    fn any(&self, which: impl Fn(&Ending) -> bool) -> bool {
        self.done.iter().any(|done| which(&done.ending))
    }
}

impl<S: Stage> Done<S> {
    /// What is printed as the stage ends.
    fn line(&self) -> String {
        let seconds = self.took.as_secs_f64();
        let head = format!("{} {} after {seconds:.1} s", self.stage.name(), self.ending.word());
        match self.ending.detail() {
            "" => head,
            detail => format!("{head}: {detail}"),
        }
    }

    fn named(&self) -> String {
        match self.ending.detail() {
            "" => self.stage.name().to_owned(),
            detail => format!("{} ({detail})", self.stage.name()),
        }
    }
}

#[cfg(test)]
mod tests;
