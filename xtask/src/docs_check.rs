//! `cargo xtask docs-check`: runs the examples that README.md and `docs/` promise to work.
//!
//! A fenced block tagged `console test` is run from the root of the checkout: each line that starts with `$ ` is a
//! command, the others show what it prints and are not compared. Every command of a block must end with status 0.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::Verdict;
use crate::process::{self, Leash};
use crate::table;
use crate::workspace::{SourceFile, Workspace, extension};

/// How the fence of a tested example ends.
const TESTED: &str = "console test";
/// How long a block may take: enough for one that starts engines (seconds).
const LIMIT_SECS: u64 = 120;
/// Runs one block: without input, in a group that ends with us, stopping at the first command that fails.
const RUNNER: &str = r#"
exec 3<&0 </dev/null
( read -r _ <&3; kill -KILL -- "-$$" ) &
exec 3<&-
export PATH="$1:$PATH"
eval "set -euo pipefail; $2"
"#;

/// Arguments of `cargo xtask docs-check`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use the release build of tito instead of the debug build.
    #[arg(long)]
    release: bool,
    /// Seconds one block may take.
    #[arg(long, default_value_t = LIMIT_SECS)]
    limit_secs: u64,
}

impl Default for Args {
    fn default() -> Self {
        Self { release: false, limit_secs: LIMIT_SECS }
    }
}

/// A block of commands and where it stands.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    path: String,
    /// Line of the fence, counted from 1.
    line: usize,
    /// One command a line.
    script: String,
}

/// Runs every tested example and prints how each ended.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Verdict> {
    let examples: Vec<Example> = workspace.files()?.iter().flat_map(examples_of).collect();
    if examples.is_empty() {
        println!("docs-check: no block is tagged `{TESTED}`");
        return Ok(Verdict::Holds);
    }
    let bin = build_tito(workspace, args.release)?;
    let mut rows = Vec::new();
    let mut holds = true;
    for example in &examples {
        let ending = play(&workspace.root, &bin, example, Duration::from_secs(args.limit_secs))?;
        holds &= ending.is_ok();
        let result = ending.err().unwrap_or_else(|| "passed".to_owned());
        rows.push(vec![format!("{}:{}", example.path, example.line), result]);
    }
    print!("\n{}", table::markdown(&["example", "result"], &rows));
    Ok(Verdict::of(holds))
}

/// Builds the binary the examples call and returns the folder it lies in.
pub(crate) fn build_tito(workspace: &Workspace, release: bool) -> Result<String> {
    let mut build = process::cargo(&workspace.root, &["build", "--package", "tito"]);
    if release {
        build.arg("--release");
    }
    if !process::succeeds(&mut build)? {
        bail!("tito does not build");
    }
    Ok(format!("{}/{}", workspace.target, if release { "release" } else { "debug" }))
}

/// Runs one example; the error says how it failed.
fn play(root: &str, bin: &str, example: &Example, limit: Duration) -> Result<Result<(), String>> {
    println!("--- {}:{}", example.path, example.line);
    let mut leash = Leash::start(RUNNER, &[bin, &example.script], |command: &mut Command| {
        command.current_dir(root);
    })?;
    Ok(match leash.wait(limit)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("failed: {status}")),
        None => Err(format!("still running after {} s", limit.as_secs())),
    })
}

fn examples_of(file: &SourceFile) -> Vec<Example> {
    let ours = file.path == "README.md" || (file.path.starts_with("docs/") && extension(&file.path) == "md");
    file.text.as_deref().filter(|_| ours).map_or_else(Vec::new, |text| parse(&file.path, text))
}

/// The tested blocks of one page.
fn parse(path: &str, text: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut fence: Option<Option<Example>> = None;
    let mut continued = false;
    for (index, line) in text.lines().enumerate() {
        let tag = line.trim_start().strip_prefix("```").map(str::trim);
        match (&mut fence, tag) {
            (None, Some(tag)) => {
                let example = || Example { path: path.to_owned(), line: index + 1, script: String::new() };
                fence = Some((tag == TESTED).then(example));
                continued = false;
            }
            (Some(_), Some("")) => examples.extend(fence.take().flatten()),
            (Some(Some(example)), _) => {
                let command = line.trim_start().strip_prefix("$ ").or(continued.then_some(line));
                if let Some(command) = command {
                    example.script.push_str(command);
                    example.script.push('\n');
                }
                continued = command.is_some_and(|command| command.ends_with('\\'));
            }
            (None | Some(None), _) => (),
        }
    }
    examples
}

#[cfg(test)]
mod tests;
