//! `cargo xtask nightly`: what is too long for every change, in two hours, with one table at the end.
//!
//! A stage whose tool, engine or network is missing is skipped by name. The command ends with status 0 only when every stage
//! that was asked for ran and held, with 3 when what ran held and something was skipped, and with 1 when a stage failed.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::engine_kit::KitArgs;
use crate::stages::{Ending, Run};
use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::{Verdict, fuzz, process};

use stage::Stage;

mod stage;

/// How long each fuzz target runs (seconds).
const FUZZ_SECS: u64 = 60;
/// How long requests are routed under eviction (minutes).
const DRIFT_MINUTES: &str = "10";
/// How many of the mutants in changed lines are tested. The budget is enough for about as many.
const MUTANTS: &str = "40";
/// How old the commit is whose successors count as changed when no base is given.
const BASE_AGE: &str = "24 hours ago";
/// Without link-time optimisation, which would be done anew for every test binary.
const NO_LTO: (&str, &str) = ("CARGO_PROFILE_RELEASE_LTO", "off");
/// The last part of a budget that a stage with a limit of its own leaves for its report.
const REPORT_TIME: Duration = Duration::from_mins(2);

/// Arguments of `cargo xtask nightly`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kit: KitArgs,
    /// Folder of the client drivers; `clients` beside the engine kit when absent.
    #[arg(long, env = "TITO_CLIENTS", value_name = "DIR")]
    clients: Option<PathBuf>,
    /// Mutants are made in lines that changed since this commit; the newest one older than a day when absent.
    #[arg(long, value_name = "COMMIT")]
    base: Option<String>,
    /// Decides what is fuzzed first and which mutants are drawn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    seed: u64,
    /// Only these stages, in the usual order; all when absent.
    #[arg(value_enum)]
    stages: Vec<Stage>,
}

/// Runs the stages, every one whatever becomes of the others, and prints the table.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Verdict> {
    let xtask = std::env::current_exe().context("find this program")?;
    let xtask = xtask.to_str().context("the path of this program is not UTF-8")?.to_owned();
    println!("nightly: seed {}", args.seed);
    let run = Run::play("nightly", &Stage::ALL, &args.stages, true, |stage| {
        Night { workspace, args, xtask: &xtask, stage, deadline: Instant::now() + stage.budget() }.perform()
    });
    print!("\n{}", run.report());
    Ok(run.verdict())
}

/// One stage under its budget.
struct Night<'a> {
    workspace: &'a Workspace,
    args: &'a Args,
    /// This program.
    xtask: &'a str,
    stage: Stage,
    deadline: Instant,
}

impl Night<'_> {
    fn perform(&self) -> Result<Ending> {
        if let Some(missing) = self.missing() {
            return Ok(Ending::Skipped(missing));
        }
        match self.stage {
            Stage::Licences => self.licences(),
            Stage::Advisories => self.advisories(),
            Stage::Fuzz => self.fuzz(),
            Stage::TestRelease => self.test_release(),
            Stage::Drift => self.xtask(&["drift", "--minutes", DRIFT_MINUTES]),
            Stage::ConformanceLight => self.xtask(&["conformance", "--engine", "light"]),
            Stage::ConformanceDense => self.xtask(&["conformance", "--engine", "dense"]),
            Stage::ConformanceDenseTight => self.xtask(&["conformance", "--engine", "dense-tight"]),
            Stage::ConformanceDensePriority => self.xtask(&["conformance", "--engine", "dense-priority"]),
            Stage::Clients => self.clients(),
            Stage::Ratios => self.xtask(&["ratios"]),
            Stage::KvIndexBench => self.kv_index_bench(),
            Stage::Mutants => self.mutants(),
        }
    }

    /// The tool, engine or folder that the stage needs and does not find.
    fn missing(&self) -> Option<String> {
        match self.stage {
            Stage::Licences | Stage::Advisories => self.missing_tool("deny"),
            Stage::Fuzz => fuzz::missing(self.workspace),
            Stage::ConformanceLight
            | Stage::ConformanceDense
            | Stage::ConformanceDenseTight
            | Stage::ConformanceDensePriority => self.missing_kit(),
            Stage::Clients => self.missing_kit().or_else(|| self.missing_clients()),
            Stage::Mutants => self.missing_tool("mutants"),
            Stage::TestRelease | Stage::Drift | Stage::Ratios | Stage::KvIndexBench => None,
        }
    }

    fn missing_tool(&self, tool: &str) -> Option<String> {
        let version = process::output(&self.workspace.root, &["cargo", tool, "--version"]);
        version.is_err().then(|| format!("cargo-{tool} is not installed"))
    }

    fn missing_kit(&self) -> Option<String> {
        self.args.kit.folder().err().map(|error| error.to_string())
    }

    fn missing_clients(&self) -> Option<String> {
        let beside = || Some(self.args.kit.folder().ok()?.join("../clients"));
        let folder = self.args.clients.clone().or_else(beside)?;
        let python = process::output(&self.workspace.root, &["python3", "--version"]);
        if !folder.is_dir() {
            return Some(format!("there is no folder {}", folder.display()));
        }
        python.is_err().then(|| "python3 is not installed".to_owned())
    }

    fn licences(&self) -> Result<Ending> {
        // The manifests of dependencies for other systems are read, too, and may not have been downloaded yet.
        if let Some(ending) = self.fetch(&[])? {
            return Ok(ending);
        }
        self.cargo(&["deny", "--locked", "check", "bans", "licenses", "sources"])
    }

    fn advisories(&self) -> Result<Ending> {
        if !self.succeeds(&["cargo", "deny", "fetch", "db"])? {
            return Ok(Ending::Skipped("the advisory database cannot be fetched".to_owned()));
        }
        self.cargo(&["deny", "--locked", "check", "advisories"])
    }

    fn fuzz(&self) -> Result<Ending> {
        let built = self.cargo(&fuzz::BUILD)?;
        if built != Ending::of(true) {
            return Ok(built);
        }
        let targets = fuzz::targets(self.workspace)?;
        let mut failed = Vec::new();
        for target in &targets {
            let words = fuzz::run_words(self.workspace, target, FUZZ_SECS, self.args.seed)?;
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if !self.succeeds(&words)? {
                failed.push(target.as_str());
            }
        }
        if failed.is_empty() {
            return Ok(Ending::Passed(format!("{} targets, {FUZZ_SECS} s each", targets.len())));
        }
        Ok(Ending::Failed(failed.join(", ")))
    }

    fn test_release(&self) -> Result<Ending> {
        let mut sum = Tally::default();
        let test = ["cargo", "test", "--workspace", "--release", "--no-fail-fast"];
        let status = self.command(&test, |line| sum.add(line))?;
        Ok(status.map_or_else(|| self.over_budget(), |status| sum.ending(status)))
    }

    fn clients(&self) -> Result<Ending> {
        if !self.succeeds(&[self.xtask, "clients", "--install-only"])? {
            return Ok(Ending::Skipped("the clients cannot be installed".to_owned()));
        }
        self.xtask(&["clients"])
    }

    fn kv_index_bench(&self) -> Result<Ending> {
        let manifest = ["--manifest-path", "benchmarks/kv-index/Cargo.toml"];
        if let Some(ending) = self.fetch(&manifest)? {
            return Ok(ending);
        }
        self.cargo(&[&["check", "--locked", "--release"], &manifest[..]].concat())
    }

    /// Downloads every dependency of a manifest; how the stage ended, when that is not possible.
    fn fetch(&self, manifest: &[&str]) -> Result<Option<Ending>> {
        let mut said = String::new();
        // Cargo says what is wrong on its standard error.
        let script = ["bash", "-c", "cargo fetch --locked \"$@\" 2>&1", "bash"];
        let status = self.command(&[&script, manifest].concat(), |line| {
            if !line.trim().is_empty() {
                line.trim().clone_into(&mut said);
            }
        })?;
        Ok(match status {
            None => Some(self.over_budget()),
            Some(status) if status.success() => None,
            // A stale lock file is a mistake of the repository; a download that fails is the network's.
            Some(_) if said.contains("--locked") => Some(Ending::Failed(said)),
            Some(_) => Some(Ending::Skipped(format!("dependencies cannot be downloaded: {said}"))),
        })
    }

    fn mutants(&self) -> Result<Ending> {
        let base = self.args.base.clone().map_or_else(|| base(&self.workspace.root), Ok)?;
        let minutes = (self.left().saturating_sub(REPORT_TIME).as_secs() / 60).max(1).to_string();
        let seed = self.args.seed.to_string();
        let sample = ["mutants", "--sample", MUTANTS, "--seed", &seed, "--base", &base];
        self.xtask(&[&sample[..], &["--limit-minutes", &minutes]].concat())
    }

    /// Runs a command of this program.
    fn xtask(&self, arguments: &[&str]) -> Result<Ending> {
        let status = self.command(&[&[self.xtask], arguments].concat(), |_| ())?;
        let partial = status.and_then(|status| status.code()) == Some(Verdict::Partial.status().into());
        Ok(if partial { Ending::Skipped("a part of it, see above".to_owned()) } else { self.ending(status) })
    }

    fn cargo(&self, arguments: &[&str]) -> Result<Ending> {
        Ok(self.ending(self.command(&[&["cargo"], arguments].concat(), |_| ())?))
    }

    fn succeeds(&self, words: &[&str]) -> Result<bool> {
        Ok(self.command(words, |_| ())?.is_some_and(|status| status.success()))
    }

    /// Runs a command for as long as the budget lasts; None when it was stopped at its end.
    fn command(&self, words: &[&str], watch: impl FnMut(&str)) -> Result<Option<ExitStatus>> {
        let prepare = |command: &mut Command| {
            command.current_dir(&self.workspace.root);
            if self.stage == Stage::Fuzz {
                command.env(fuzz::TOOLCHAIN.0, fuzz::TOOLCHAIN.1);
            }
            if self.stage != Stage::Ratios {
                command.env(NO_LTO.0, NO_LTO.1);
            }
            if let Some(clients) = &self.args.clients {
                command.env("TITO_CLIENTS", clients);
            }
            if let Ok(kit) = self.args.kit.folder() {
                command.env("TITO_ENGINE_KIT", kit);
            }
        };
        process::limited(words, self.left(), prepare, watch)
    }

    fn ending(&self, status: Option<ExitStatus>) -> Ending {
        match status {
            None => self.over_budget(),
            Some(status) if status.success() => Ending::of(true),
            Some(status) => Ending::Failed(format!("ended with {status}")),
        }
    }

    fn over_budget(&self) -> Ending {
        Ending::Failed(format!(
            "stopped at the end of its budget, {} min",
            self.stage.budget().as_secs() / 60
        ))
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// The newest commit that is older than a day, or the first one of a younger history.
fn base(root: &str) -> Result<String> {
    let before = format!("--before={BASE_AGE}");
    let old = process::output(root, &["git", "rev-list", "--max-count=1", &before, "HEAD"])?;
    let first = || process::output(root, &["git", "rev-list", "--max-parents=0", "HEAD"]);
    let commits = if old.trim().is_empty() { first()? } else { old };
    Ok(commits.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests;
