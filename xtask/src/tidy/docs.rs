//! Rules about documents: the index of `docs/` and the fragments of `changelog.d/`.

use std::collections::BTreeSet;

use super::policy::{CHANGELOG_KINDS, CHANGELOG_SLUG_CHARS_MAX, DOCS_INDEX};
use super::{Finding, links};
use crate::workspace::extension;

/// Each page under `docs/` is linked from the index, so that a reader can find it.
pub(crate) fn index(paths: &BTreeSet<&str>, index: &str) -> Vec<Finding> {
    let linked: BTreeSet<String> =
        links::targets(index).filter_map(|link| links::resolve(DOCS_INDEX, link.target).ok()).collect();
    let pages = paths
        .iter()
        .filter(|path| path.starts_with("docs/") && extension(path) == "md" && **path != DOCS_INDEX);
    pages
        .filter(|page| !linked.contains(**page))
        .map(|page| {
            Finding::new(
                page,
                1,
                format!("{DOCS_INDEX} does not list it"),
                "add a link and a line on what it tells",
            )
        })
        .collect()
}

/// A fragment is called `slug.kind.md` and is one or more plain sentences.
pub(crate) fn fragment(path: &str, name: &str, text: &str) -> Vec<Finding> {
    if name == "README.md" {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if !well_named(name) {
        let remedy = format!(
            "call it slug.kind.md: a slug of lower-case words joined by hyphens, a kind out of {}",
            CHANGELOG_KINDS.join(", ")
        );
        findings.push(Finding::new(path, 1, "not the name of a fragment", remedy));
    }
    let starts_plainly =
        text.chars().next().is_some_and(|first| !first.is_whitespace() && !"#-*".contains(first));
    if !starts_plainly || !text.trim_end().ends_with('.') {
        let remedy = "write full sentences for the person who runs Tito, without heading or bullet";
        findings.push(Finding::new(path, 1, "not a release note", remedy));
    }
    findings
}

fn well_named(name: &str) -> bool {
    let Some((slug, kind)) = name.strip_suffix(".md").and_then(|stem| stem.split_once('.')) else {
        return false;
    };
    let word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    CHANGELOG_KINDS.contains(&kind) && slug.len() <= CHANGELOG_SLUG_CHARS_MAX && slug.split('-').all(word)
}

#[cfg(test)]
mod tests;
