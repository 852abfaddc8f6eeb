//! The fuzz targets: where they are, what they need, and how they are built and run.
//!
//! They live in a workspace of their own. The stable toolchain brings what they need and builds them when it is told to take
//! the flags of a nightly one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// Builds every target, for cargo.
pub(crate) const BUILD: [&str; 2] = ["fuzz", "build"];
/// The variable under which a stable compiler takes the flags that cargo-fuzz gives it, and its value.
pub(crate) const TOOLCHAIN: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");

/// What is missing to build the targets, in a sentence.
pub(crate) fn missing(workspace: &Workspace) -> Option<String> {
    if !Path::new(&workspace.root).join("fuzz/Cargo.toml").exists() {
        return Some("there is no fuzz/Cargo.toml".to_owned());
    }
    let version = process::output(&workspace.root, &["cargo", "fuzz", "--version"]);
    version.is_err().then(|| "cargo-fuzz is not installed".to_owned())
}

/// The names of the targets, in order.
pub(crate) fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let list = process::output(&workspace.root, &["cargo", "fuzz", "list"])?;
    let mut targets: Vec<String> = list.lines().map(|line| line.trim().to_owned()).collect();
    targets.sort();
    Ok(targets)
}

/// Words that run one target for some seconds, from the committed corpus.
///
/// What the run finds is kept in the target folder, so that the committed corpus changes only when somebody adds to it.
pub(crate) fn run_words(workspace: &Workspace, target: &str, seconds: u64, seed: u64) -> Result<Vec<String>> {
    let found = format!("{}/fuzz/{target}", workspace.target);
    fs::create_dir_all(&found).with_context(|| format!("create {found}"))?;
    let mut words: Vec<String> = ["cargo", "fuzz", "run", target, &found].map(str::to_owned).into();
    let corpus = format!("fuzz/corpus/{target}");
    if Path::new(&workspace.root).join(&corpus).is_dir() {
        words.push(corpus);
    }
    words.extend(["--".to_owned(), format!("-max_total_time={seconds}"), format!("-seed={seed}")]);
    Ok(words)
}

#[cfg(test)]
mod tests;
