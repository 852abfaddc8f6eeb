//! `cargo xtask verify`: everything CI runs, in one order, with one table at the end.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::process::{self, cargo, succeeds};
use crate::workspace::Workspace;
use crate::{Verdict, docs_check, table, tidy};

/// Arguments of `cargo xtask verify`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the later stages too when one has failed.
    #[arg(long)]
    keep_going: bool,
    /// Run the tests with cargo-nextest instead of cargo test.
    #[arg(long)]
    nextest: bool,
    /// Only these stages, in the usual order; all when absent.
    #[arg(value_enum)]
    stages: Vec<Stage>,
}

/// One stage, in the order they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Stage {
    Fmt,
    Tidy,
    Clippy,
    Test,
    Doc,
    DocsCheck,
    Fuzz,
}

impl Stage {
    const ALL: [Self; 7] =
        [Self::Fmt, Self::Tidy, Self::Clippy, Self::Test, Self::Doc, Self::DocsCheck, Self::Fuzz];

    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Clippy => "clippy",
            Self::Test => "test",
            Self::Doc => "doc",
            Self::DocsCheck => "docs-check",
            Self::Fuzz => "fuzz",
        }
    }
}

/// How a stage ended, with what is worth a word.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    Passed(String),
    Failed(String),
    Skipped(String),
}

impl Ending {
    fn of(passed: bool) -> Self {
        if passed { Self::Passed(String::new()) } else { Self::Failed(String::new()) }
    }
}

/// A stage that was reached, its ending and its time.
type Done = (Stage, Ending, Duration);

/// Runs the stages and prints the table.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Verdict {
    let stages: Vec<Stage> = Stage::ALL
        .into_iter()
        .filter(|stage| args.stages.is_empty() || args.stages.contains(stage))
        .collect();
    let done = play(&stages, args.keep_going, |stage| {
        println!("=== {}", stage.name());
        perform(workspace, args, stage)
    });
    print!("\n{}", report(&stages, &done));
    Verdict::of(holds(&done))
}

/// Performs the stages in order, up to the first failure unless told to keep going.
fn play(stages: &[Stage], keep_going: bool, mut perform: impl FnMut(Stage) -> Result<Ending>) -> Vec<Done> {
    let mut done = Vec::new();
    for stage in stages {
        let began = Instant::now();
        let ending = perform(*stage).unwrap_or_else(|error| Ending::Failed(format!("{error:#}")));
        let failed = matches!(ending, Ending::Failed(_));
        done.push((*stage, ending, began.elapsed()));
        if failed && !keep_going {
            break;
        }
    }
    done
}

fn holds(done: &[Done]) -> bool {
    done.iter().all(|(_, ending, _)| !matches!(ending, Ending::Failed(_)))
}

fn perform(workspace: &Workspace, args: &Args, stage: Stage) -> Result<Ending> {
    let root = workspace.root.as_str();
    let verdict = |verdict| Ending::of(verdict == Verdict::Holds);
    Ok(match stage {
        Stage::Fmt => Ending::of(succeeds(&mut cargo(root, &["fmt", "--all", "--check"]))?),
        Stage::Tidy => verdict(tidy::run(workspace)?),
        Stage::Clippy => {
            let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
            Ending::of(succeeds(&mut cargo(root, &clippy))?)
        }
        Stage::Test if args.nextest => {
            Ending::of(succeeds(&mut cargo(root, &["nextest", "run", "--workspace"]))?)
        }
        Stage::Test => test(cargo(root, &["test", "--workspace"]))?,
        Stage::Doc => {
            let mut doc = cargo(root, &["doc", "--workspace", "--no-deps"]);
            Ending::of(succeeds(doc.env("RUSTDOCFLAGS", "-D warnings"))?)
        }
        Stage::DocsCheck => verdict(docs_check::run(workspace, &docs_check::Args::default())?),
        Stage::Fuzz => fuzz(workspace)?,
    })
}

/// Runs the tests, passes their lines on, and counts what their closing lines say.
fn test(mut command: Command) -> Result<Ending> {
    let mut sum = Tally::default();
    let status = process::watched(&mut command, |line| sum.add(line))?;
    let detail = format!("{} passed, {} failed, {} ignored", sum.passed, sum.failed, sum.ignored);
    // A run that tests nothing is a broken run.
    Ok(if status.success() && sum.passed > 0 { Ending::Passed(detail) } else { Ending::Failed(detail) })
}

/// Sums over the closing lines of the test binaries.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tally {
    /// Reads a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`; others count nothing.
    fn add(&mut self, line: &str) {
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
}

/// Compiles the fuzz targets, which live outside the workspace and need a nightly compiler.
fn fuzz(workspace: &Workspace) -> Result<Ending> {
    let root = workspace.root.as_str();
    let missing = |words: &[&str]| process::output(root, words).is_err();
    if !std::path::Path::new(root).join("fuzz/Cargo.toml").exists() {
        return Ok(Ending::Skipped("there is no fuzz/Cargo.toml".to_owned()));
    }
    if missing(&["cargo", "fuzz", "--version"]) {
        return Ok(Ending::Skipped("cargo-fuzz is not installed".to_owned()));
    }
    if missing(&["cargo", "+nightly", "--version"]) {
        return Ok(Ending::Skipped("there is no nightly toolchain".to_owned()));
    }
    Ok(Ending::of(succeeds(&mut cargo(root, &["+nightly", "fuzz", "build"]))?))
}

/// A row per stage that was asked for.
fn report(stages: &[Stage], done: &[Done]) -> String {
    let rows: Vec<Vec<String>> = stages
        .iter()
        .map(|stage| {
            let Some((_, ending, took)) = done.iter().find(|(done, _, _)| done == stage) else {
                return vec![stage.name().to_owned(), "not reached".to_owned()];
            };
            let (result, detail) = match ending {
                Ending::Passed(detail) => ("passed", detail),
                Ending::Failed(detail) => ("FAILED", detail),
                Ending::Skipped(reason) => ("skipped", reason),
            };
            vec![
                stage.name().to_owned(),
                result.to_owned(),
                format!("{:.1}", took.as_secs_f64()),
                detail.clone(),
            ]
        })
        .collect();
    let line = if holds(done) { "verify: everything holds" } else { "verify: FAILED" };
    format!("{}{line}\n", table::markdown(&["stage", "result", "seconds", "detail"], &rows))
}

#[cfg(test)]
mod tests;
