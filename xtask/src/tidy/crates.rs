//! Rules about crates: folders, layers, arrows, gated dependencies, and their rows in ARCHITECTURE.md.

mod listing;
mod table;

use std::collections::BTreeMap;

use super::Finding;
use super::policy::{FOLDERS, GATES, IMPURE, PURE, STD_ONLY};
use crate::workspace::{Crate, Dependency};

pub(crate) use table::unused;

/// Every finding about the members of the workspace and the table that lists them.
pub(crate) fn check(crates: &[Crate], architecture: &str) -> Vec<Finding> {
    let layers: BTreeMap<&str, u64> =
        crates.iter().filter_map(|member| Some((member.name.as_str(), member.layer?))).collect();
    let mut findings = Vec::new();
    for member in crates {
        findings.extend(house(member));
        for dependency in member.dependencies.iter().filter(|dependency| !dependency.dev) {
            findings.extend(arrow(member, dependency, &layers));
            findings.extend(purity(member, dependency));
            findings.extend(gate(member, dependency));
        }
    }
    findings.extend(listing::check(crates, architecture));
    findings
}

/// Folder, layer and lints: what every manifest states.
fn house(member: &Crate) -> Vec<Finding> {
    let mut findings = Vec::new();
    let at =
        |line, problem: String, remedy: &str| Finding::new(&member.manifest_path(), line, problem, remedy);
    let folder = folder_of(&member.name);
    if member.folder != folder {
        let problem = format!("{} lies in {}", member.name, member.folder);
        findings.push(at(1, problem, &format!("move it to {folder}, or rename the crate")));
    }
    if member.layer.is_none() {
        let problem = format!("{} states no layer", member.name);
        findings.push(at(1, problem, "add `[package.metadata]` with `layer = N`"));
    }
    if !inherits_lints(&member.manifest) {
        let problem = format!("{} does not use the workspace's lints", member.name);
        findings.push(at(1, problem, "add `[lints]` with `workspace = true`"));
    }
    findings
}

/// Where a crate of this name lies.
fn folder_of(name: &str) -> String {
    let exception = FOLDERS.iter().find(|(crate_name, _)| *crate_name == name);
    exception.map_or_else(
        || format!("crates/{}", name.strip_prefix("tito-").unwrap_or(name)),
        |(_, folder)| (*folder).to_owned(),
    )
}

fn inherits_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    lines.find(|line| !line.is_empty()) == Some("workspace = true")
}

/// An arrow between our own crates goes strictly down.
fn arrow(member: &Crate, dependency: &Dependency, layers: &BTreeMap<&str, u64>) -> Option<Finding> {
    let (from, to) = (member.layer?, *layers.get(dependency.name.as_str())?);
    (to >= from).then(|| {
        let problem = format!(
            "{} (layer {from}) depends on {} (layer {to}), which is not below it",
            member.name, dependency.name
        );
        let remedy =
            "move the shared part down, pass it in, or change the layers in ARCHITECTURE.md with the reason";
        finding_at(member, dependency, problem, remedy)
    })
}

/// Pure crates stay pure, and the lowest one needs nothing.
fn purity(member: &Crate, dependency: &Dependency) -> Option<Finding> {
    let name = member.name.as_str();
    if name == STD_ONLY {
        let problem = format!("{name} depends on {}, but uses the standard library only", dependency.name);
        return Some(finding_at(member, dependency, problem, "put what needs it into a crate above"));
    }
    let impure = IMPURE.iter().any(|family| in_family(&dependency.name, family));
    (PURE.contains(&name) && impure).then(|| {
        let problem = format!("{name} is pure and must not depend on {}", dependency.name);
        finding_at(
            member,
            dependency,
            problem,
            "take `now`, a seed or bytes as arguments and act in a crate above",
        )
    })
}

/// Some dependencies are for a few crates only.
fn gate(member: &Crate, dependency: &Dependency) -> Option<Finding> {
    let gate = GATES.iter().find(|gate| gate.dependency == dependency.name)?;
    if gate.allowed.iter().any(|(name, _)| *name == member.name) {
        return None;
    }
    let allowed: Vec<&str> = gate.allowed.iter().map(|(name, _)| *name).collect();
    let problem = format!("{} must not depend on {}: {}", member.name, dependency.name, gate.because);
    let remedy = format!("leave that work to one of {}", allowed.join(", "));
    Some(finding_at(member, dependency, problem, &remedy))
}

fn in_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

/// Whether a line of a manifest is about this dependency.
fn names(line: &str, dependency: &str) -> bool {
    line.trim_start().strip_prefix(dependency).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
}

/// A finding on the line of the manifest that names the dependency.
fn finding_at(member: &Crate, dependency: &Dependency, problem: String, remedy: &str) -> Finding {
    let line =
        member.manifest.lines().position(|line| names(line, &dependency.name)).map_or(1, |index| index + 1);
    Finding::new(&member.manifest_path(), line, problem, remedy)
}

#[cfg(test)]
mod tests;
