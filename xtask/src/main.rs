//! Repository checks and developer commands, run as `cargo xtask <command>`.
//!
//! Nothing here is part of the product, and no other crate may depend on it. A command ends with status 0 when what
//! it checked holds, 1 when it does not, 2 when it could not find out, and 3 when what it could check holds and something was
//! skipped.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a developer command talks on its terminal")]

mod anchor;
mod clients;
mod conformance;
mod docs_check;
mod drift;
mod engine_kit;
mod fuzz;
mod mutants;
mod nightly;
mod process;
mod ratios;
mod stages;
mod table;
mod tally;
mod tidy;
mod verify;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Repository checks and developer commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check what the compiler cannot: arrows between crates, file lengths, links, leftovers.
    Tidy,
    /// Run everything CI runs, stage by stage.
    Verify(verify::Args),
    /// Run the examples of README.md and docs/ that are marked as tested.
    DocsCheck(docs_check::Args),
    /// Run the vLLM contract suite against the mock or a real engine.
    Conformance(conformance::Args),
    /// Route requests under eviction for minutes and hold every prediction of cached tokens against the engine's report.
    Drift(drift::Args),
    /// Record what a real engine does with a trace, and fit the simulation of `tito replay` to it.
    Anchor(anchor::Args),
    /// Drive `tito serve` over a real engine with third-party clients.
    Clients(clients::Args),
    /// Measure what a request and a decision cost beside a reference, and compare with the stored ratios.
    Ratios(ratios::Args),
    /// Count how many of a seeded sample of mutants the tests catch.
    Mutants(mutants::Args),
    /// Run what is too long for every change, in two hours.
    Nightly(nightly::Args),
}

/// Whether what a command checked holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    /// What could be checked holds, and something was skipped by name.
    Partial,
    Broken,
}

impl Verdict {
    /// The exit status.
    fn status(self) -> u8 {
        match self {
            Self::Holds => 0,
            Self::Partial => 3,
            Self::Broken => 1,
        }
    }

    fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Broken }
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(verdict) => ExitCode::from(verdict.status()),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: &Command) -> Result<Verdict> {
    let workspace = Workspace::load()?;
    match command {
        Command::Tidy => tidy::run(&workspace),
        Command::Verify(args) => Ok(verify::run(&workspace, args)),
        Command::DocsCheck(args) => docs_check::run(&workspace, args),
        Command::Conformance(args) => conformance::run(&workspace, args),
        Command::Drift(args) => drift::run(&workspace, args),
        Command::Anchor(args) => anchor::run(&workspace, args),
        Command::Clients(args) => clients::run(&workspace, args),
        Command::Ratios(args) => ratios::run(&workspace, args),
        Command::Mutants(args) => mutants::run(&workspace, args),
        Command::Nightly(args) => nightly::run(&workspace, args),
    }
}
