//! Links of Markdown files to other files of the checkout.

use std::collections::BTreeSet;

use super::Finding;

/// One link as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// Counted from 1.
    pub line: usize,
    pub target: &'a str,
}

/// Every local link of this file that leads nowhere.
pub(crate) fn check(path: &str, text: &str, paths: &BTreeSet<&str>) -> Vec<Finding> {
    let exists = |target: &str| {
        let folder = format!("{target}/");
        target.is_empty()
            || paths.contains(target)
            || paths.range(folder.as_str()..).next().is_some_and(|next| next.starts_with(&folder))
    };
    let broken = |link: Link<'_>| match resolve(path, link.target) {
        Err(Elsewhere::OtherPlace) => None,
        Err(Elsewhere::OutsideTheCheckout) => {
            let problem = format!("{} leads outside the checkout", link.target);
            Some(Finding::new(
                path,
                link.line,
                problem,
                "a clean clone has no such file: link inside it, or by https",
            ))
        }
        Ok(target) if exists(&target) => None,
        Ok(target) => {
            let problem = format!("there is no {target}");
            Some(Finding::new(path, link.line, problem, "correct the link, or add the file"))
        }
    };
    targets(text).filter_map(broken).collect()
}

/// Why a target is not a file of the checkout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// A web address, a mail address or a heading of the same page.
    OtherPlace,
    /// A path that climbs above the root.
    OutsideTheCheckout,
}

/// The path from the root that a target means on the page at `path`.
pub(crate) fn resolve(path: &str, target: &str) -> Result<String, Elsewhere> {
    let file = target.split(['#', '?']).next().unwrap_or_default();
    let scheme =
        file.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    if file.is_empty() || scheme || file.starts_with("//") {
        return Err(Elsewhere::OtherPlace);
    }
    let mut parts: Vec<&str> = Vec::new();
    if !file.starts_with('/') {
        parts.extend(path.split('/'));
        parts.pop();
    }
    for part in file.split('/') {
        match part {
            "" | "." => (),
            ".." => drop(parts.pop().ok_or(Elsewhere::OutsideTheCheckout)?),
            _ => parts.push(part),
        }
    }
    Ok(parts.join("/").replace("%20", " "))
}

/// Every link target outside code: inline, by reference, and in `src` or `href` of HTML.
pub(crate) fn targets(text: &str) -> impl Iterator<Item = Link<'_>> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().flat_map(move |(index, line)| {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => {
                return line_targets(line).map(|target| Link { line: index + 1, target }).collect();
            }
            (Some(_), _) => (),
        }
        Vec::new()
    })
}

fn line_targets(line: &str) -> impl Iterator<Item = &str> {
    let reference = line.trim_start().strip_prefix('[').and_then(|rest| {
        let (label, target) = rest.split_once("]: ")?;
        (!label.starts_with('^') && !label.contains(']'))
            .then(|| target.split_whitespace().next().unwrap_or_default())
    });
    // Every second part between backticks is code.
    let prose = line.split('`').step_by(2);
    let opened = |opening: &'static str, closing: char| {
        move |part| after(part, opening).filter_map(move |rest: &str| rest.split(closing).next())
    };
    let inline = prose.clone().flat_map(opened("](", ')'));
    let html = prose.clone().flat_map(opened("src=\"", '"')).chain(prose.flat_map(opened("href=\"", '"')));
    reference.into_iter().chain(inline.map(without_title)).chain(html)
}

/// What follows each occurrence of a mark.
fn after<'a>(text: &'a str, mark: &'static str) -> impl Iterator<Item = &'a str> {
    text.match_indices(mark).map(move |(at, _)| &text[at + mark.len()..])
}

/// `page.md "Title"` and `<page.md>` mean page.md.
fn without_title(target: &str) -> &str {
    let target = target.trim();
    match target.strip_prefix('<') {
        Some(rest) => rest.split('>').next().unwrap_or_default(),
        None => target.split_whitespace().next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
