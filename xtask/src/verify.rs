//! `cargo xtask verify`: everything CI runs, in one order, with one table at the end.

use std::process::Command;

use anyhow::Result;

use crate::process::{self, cargo, succeeds};
use crate::stages::{self, Ending, Run};
use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::{Verdict, docs_check, fuzz, tidy};

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
}

impl stages::Stage for Stage {
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

/// Runs the stages and prints the table.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Verdict {
    let run = Run::play("verify", &Stage::ALL, &args.stages, args.keep_going, |stage| {
        perform(workspace, args, stage)
    });
    print!("\n{}", run.report());
    match run.verdict() {
        // A checkout with nothing but a toolchain is where CI runs; the closing line names what it could not show.
        Verdict::Holds | Verdict::Partial => Verdict::Holds,
        Verdict::Broken => Verdict::Broken,
    }
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
        Stage::Fuzz => fuzz_build(workspace)?,
    })
}

/// Runs the tests, passes their lines on, and counts what their closing lines say.
fn test(mut command: Command) -> Result<Ending> {
    let mut sum = Tally::default();
    let status = process::watched(&mut command, |line| sum.add(line))?;
    Ok(sum.ending(status))
}

/// Compiles the fuzz targets.
fn fuzz_build(workspace: &Workspace) -> Result<Ending> {
    if let Some(missing) = fuzz::missing(workspace) {
        return Ok(Ending::Skipped(missing));
    }
    let mut build = cargo(&workspace.root, &fuzz::BUILD);
    Ok(Ending::of(succeeds(build.env(fuzz::TOOLCHAIN.0, fuzz::TOOLCHAIN.1))?))
}
