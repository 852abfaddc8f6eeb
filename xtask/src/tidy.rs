//! `cargo xtask tidy`: what the compiler cannot check about this repository.
//!
//! Each rule is a pure function from names and text to findings, so that a table can test it. This file only
//! reads the checkout, asks every rule and prints everything that was found.

mod crates;
mod docs;
mod layout;
mod lines;
mod links;
mod policy;

use std::collections::BTreeSet;
use std::fmt;

use anyhow::Result;

use crate::Verdict;
use crate::workspace::{SourceFile, Workspace, extension};

/// One thing that does not hold, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    /// Counted from 1.
    line: usize,
    problem: String,
    remedy: String,
}

impl Finding {
    fn new(path: &str, line: usize, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, problem: problem.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.problem, self.remedy)
    }
}

/// Checks the whole checkout and prints every finding.
pub(crate) fn run(workspace: &Workspace) -> Result<Verdict> {
    let files = workspace.files()?;
    let mut findings = architecture(workspace, &files);
    findings.extend(documents(&files));
    for file in &files {
        if let Some(text) = &file.text {
            findings.extend(layout::check(&file.path, text));
            findings.extend(lines::check(&file.path, text));
        }
    }
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("tidy: {} crates and {} files are in order", workspace.crates.len(), files.len()),
        1 => println!("tidy: 1 finding"),
        count => println!("tidy: {count} findings"),
    }
    Ok(Verdict::of(findings.is_empty()))
}

fn architecture(workspace: &Workspace, files: &[SourceFile]) -> Vec<Finding> {
    let Some(text) = text_of(files, policy::ARCHITECTURE) else {
        return vec![Finding::new(
            policy::ARCHITECTURE,
            1,
            "it is missing",
            "write it: every crate is listed there",
        )];
    };
    let mut findings = crates::check(&workspace.crates, text);
    findings.extend(crates::unused(&workspace.crates, text_of(files, policy::MANIFEST).unwrap_or_default()));
    findings
}

fn documents(files: &[SourceFile]) -> Vec<Finding> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut findings = Vec::new();
    for file in files {
        if let Some(text) = file.text.as_deref().filter(|_| extension(&file.path) == "md") {
            findings.extend(links::check(&file.path, text, &paths));
        }
        if let Some(fragment) = file.path.strip_prefix(policy::CHANGELOG) {
            findings.extend(docs::fragment(&file.path, fragment, file.text.as_deref().unwrap_or_default()));
        }
    }
    let index = text_of(files, policy::DOCS_INDEX).unwrap_or_default();
    findings.extend(docs::index(&paths, index));
    findings
}

fn text_of<'a>(files: &'a [SourceFile], path: &str) -> Option<&'a str> {
    files.iter().find(|file| file.path == path)?.text.as_deref()
}

#[cfg(test)]
mod tests;
