//! `cargo mutants` over a checkout of its own, so that work in the developer's tree goes on beside it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::record::Outcome;
use crate::process;
use crate::workspace::{Crate, Workspace};

/// A test may take this many times what it takes without a mutant …
const TIMEOUT_MULTIPLIER: &str = "5";
/// … but at least this (seconds): a busy machine is no hanging test.
const TIMEOUT_SECS_MIN: &str = "120";
/// Crates whose tests compare against a scan for minutes when they are not optimised.
const OPTIMISED: [&str; 2] = ["tito-policy", "tito-kv-index"];
/// In the names of mutants that leave a field out of a struct expression. `cargo mutants` 27 runs all of a file's whatever it is
/// told to select, so they cannot be drawn.
const NOT_SELECTABLE: &str = ": delete field ";
/// Who tests the crates together.
const WHOLE_STACK: [&str; 2] = ["tito-testkit", "tito"];

/// One mutant as `cargo mutants --list` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mutant {
    pub package: String,
    /// File, line, column and what is replaced; unique within a commit.
    pub name: String,
}

/// Which tests are run against a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tests {
    /// Those of its own crate.
    Own,
    /// Those that run the crates together.
    WholeStack,
}

/// A checkout of one commit under the target folder, with build output of its own.
pub(super) struct Tree {
    path: String,
    folder: String,
    nextest: bool,
}

impl Tree {
    /// Makes the checkout, or moves the one that is there to the commit and throws a mutant away that was left in it.
    pub(super) fn checkout(workspace: &Workspace, folder: &str, commit: &str) -> Result<Self> {
        let path = format!("{folder}/tree");
        let root = &workspace.root;
        if Path::new(&path).join(".git").exists() {
            process::output(&path, &["git", "checkout", "--quiet", "--force", "--detach", commit])?;
        } else {
            process::output(root, &["git", "worktree", "prune"])?;
            process::output(root, &["git", "worktree", "add", "--quiet", "--detach", &path, commit])?;
        }
        let nextest = process::output(root, &["cargo", "nextest", "--version"]).is_ok();
        Ok(Self { path, folder: folder.to_owned(), nextest })
    }

    /// Every mutant of these crates; with `base`, only those in lines that changed since that commit.
    pub(super) fn list(&self, packages: &[&Crate], base: Option<&str>) -> Result<Vec<Mutant>> {
        let mut words = vec!["cargo", "mutants", "--list", "--json"];
        words.extend(packages.iter().flat_map(|package| ["--package", package.name.as_str()]));
        let diff = format!("{}/base.diff", self.folder);
        if let Some(base) = base {
            fs::write(&diff, process::output(&self.path, &["git", "diff", base, "HEAD"])?)
                .with_context(|| format!("write {diff}"))?;
            words.extend(["--in-diff", diff.as_str()]);
        }
        // The list of an empty diff is empty text.
        let text = process::output(&self.path, &words)?;
        let mut list = if text.trim().is_empty() { Vec::new() } else { mutants(&text)? };
        list.retain(|mutant| !mutant.name.contains(NOT_SELECTABLE));
        Ok(list)
    }

    /// Runs tests with each of the mutants of one crate in place, and hands each outcome over as it is known to `cargo
    /// mutants`. What the limit cuts off has no outcome.
    pub(super) fn test(
        &self,
        package: &Crate,
        names: &[String],
        tests: Tests,
        limit: Duration,
    ) -> Result<Vec<(String, Outcome)>> {
        self.clean()?;
        let output = format!("{}/output", self.folder);
        let outcomes = format!("{output}/mutants.out/outcomes.json");
        if Path::new(&outcomes).exists() {
            fs::remove_file(&outcomes).with_context(|| format!("delete {outcomes}"))?;
        }
        let arguments = self.arguments(package, names, tests, &output);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let path = &self.path;
        let prepare = |command: &mut Command| {
            command.current_dir(path);
        };
        process::limited(&words, limit, prepare, |_| ())?;
        let text = fs::read_to_string(&outcomes)
            .with_context(|| format!("cargo mutants left no outcome for {}", package.name))?;
        known(&text, tests)
    }

    /// Takes back a mutant that was left in place and what tests of mutants wrote, such as seeds of failed properties.
    fn clean(&self) -> Result<()> {
        process::output(&self.path, &["git", "checkout", "--quiet", "--force", "HEAD"])?;
        process::output(&self.path, &["git", "clean", "--quiet", "--force", "-d"])?;
        Ok(())
    }

    fn arguments(&self, package: &Crate, names: &[String], tests: Tests, output: &str) -> Vec<String> {
        let mut words = vec!["cargo", "mutants", "--in-place", "--no-shuffle", "--colors", "never"];
        words.extend(["--output", output, "--package", package.name.as_str()]);
        words.extend(["--timeout-multiplier", TIMEOUT_MULTIPLIER]);
        words.extend(["--minimum-test-timeout", TIMEOUT_SECS_MIN]);
        if self.nextest {
            words.extend(["--test-tool", "nextest"]);
        }
        match tests {
            Tests::WholeStack => words.extend(WHOLE_STACK.iter().flat_map(|name| ["--test-package", name])),
            // Neither the plain library nor the examples need to be built.
            Tests::Own if self.tests_are_in_library(package) => words.push("--cargo-arg=--lib"),
            Tests::Own => (),
        }
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        words.extend(
            OPTIMISED.map(|name| format!("--cargo-arg=--config=profile.dev.package.{name}.opt-level=1")),
        );
        words.extend(names.iter().map(|name| format!("--re=^{}$", escaped(name))));
        // Mutants that no expression can leave out are at least those of these files only.
        let files: BTreeSet<&str> = names.iter().filter_map(|name| Some(name.split_once(':')?.0)).collect();
        words.extend(files.into_iter().map(|file| format!("--file={file}")));
        words
    }

    fn tests_are_in_library(&self, package: &Crate) -> bool {
        let folder = Path::new(&self.path).join(&package.folder);
        folder.join("src/lib.rs").exists() && !folder.join("tests").exists()
    }
}

/// The mutants in the JSON that `cargo mutants --list` prints.
fn mutants(text: &str) -> Result<Vec<Mutant>> {
    let list: Vec<Value> = serde_json::from_str(text).context("read the list of cargo mutants")?;
    list.iter()
        .map(|mutant| {
            let field = |name: &str| {
                let value = mutant.get(name).and_then(Value::as_str);
                value.map(str::to_owned).with_context(|| format!("a mutant has no {name}: {mutant}"))
            };
            Ok(Mutant { package: field("package")?, name: field("name")? })
        })
        .collect()
}

/// The outcomes in the file that `cargo mutants` writes after each mutant.
fn known(text: &str, tests: Tests) -> Result<Vec<(String, Outcome)>> {
    let file: Value = serde_json::from_str(text).context("read the outcomes of cargo mutants")?;
    let outcomes = file.get("outcomes").and_then(Value::as_array).context("the file has no outcomes")?;
    let mut known = Vec::new();
    for outcome in outcomes {
        let summary = outcome.get("summary").and_then(Value::as_str).unwrap_or_default();
        let Some(name) = outcome.pointer("/scenario/Mutant/name").and_then(Value::as_str) else {
            if summary != "Success" {
                bail!("the tests do not pass without a mutant ({summary}), so they cannot catch one");
            }
            continue;
        };
        let outcome = match (summary, tests) {
            ("CaughtMutant", Tests::Own) => Outcome::Caught,
            ("CaughtMutant", Tests::WholeStack) => Outcome::CaughtAbove,
            ("MissedMutant", Tests::Own) => Outcome::MissedByOwn,
            ("MissedMutant", Tests::WholeStack) => Outcome::Missed,
            ("Timeout", _) => Outcome::TimedOut,
            ("Unviable", _) => Outcome::Unviable,
            _ => bail!("cargo mutants gives an outcome that is not known here: {summary}"),
        };
        known.push((name.to_owned(), outcome));
    }
    Ok(known)
}

/// The name as a regular expression that matches it alone.
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len() + 16);
    for character in name.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests;
