//! The crate table of ARCHITECTURE.md against the workspace.

use std::collections::BTreeMap;

use super::super::Finding;
use super::super::policy::ARCHITECTURE;
use super::folder_of;
use crate::workspace::Crate;

/// What the fourth column says of a crate that is in the workspace.
const BUILT: &str = "built";
/// What it says of a crate that has a place and no code yet.
const RESERVED: &str = "reserved";

/// A row such as ``| 2 | `engine` | the waist | built |``.
struct Row<'a> {
    /// Line of the document, counted from 1.
    line: usize,
    layer: &'a str,
    purpose: &'a str,
    state: &'a str,
}

/// The table lists each member once, with its layer and a purpose, and no crate that does not exist.
pub(super) fn check(crates: &[Crate], architecture: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rows: BTreeMap<&str, Row<'_>> = BTreeMap::new();
    for (name, row) in parse(architecture) {
        let line = row.line;
        if rows.insert(name, row).is_some() {
            let problem = format!("`{name}` is listed twice");
            findings.push(Finding::new(ARCHITECTURE, line, problem, "keep one row"));
        }
    }
    for member in crates {
        let folder = short_name(&member.name);
        match rows.remove(folder.as_str()) {
            Some(row) => findings.extend(compare(&folder, member, &row)),
            None => findings.push(Finding::new(
                ARCHITECTURE,
                1,
                format!("`{folder}` is not in the crate table"),
                format!("add ``| {} | `{folder}` | its purpose | {BUILT} |``", layer_of(member)),
            )),
        }
    }
    for (name, row) in rows {
        if row.state != RESERVED {
            let problem = format!("`{name}` is listed and is not in the workspace");
            findings.push(Finding::new(
                ARCHITECTURE,
                row.line,
                problem,
                format!("remove the row, or mark it {RESERVED}"),
            ));
        }
    }
    findings
}

fn compare(name: &str, member: &Crate, row: &Row<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut push = |problem: String, remedy: &str| {
        findings.push(Finding::new(ARCHITECTURE, row.line, problem, remedy));
    };
    let layer = layer_of(member);
    if row.layer != layer {
        push(
            format!("`{name}` is on layer {} here and {layer} in its manifest", row.layer),
            "make them equal",
        );
    }
    if row.purpose.is_empty() {
        push(format!("`{name}` has no purpose"), "say in one line what it is for");
    }
    if row.state != BUILT {
        push(format!("`{name}` exists and is marked {:?}", row.state), "mark it built");
    }
    findings
}

fn layer_of(member: &Crate) -> String {
    member.layer.map_or_else(|| "?".to_owned(), |layer| layer.to_string())
}

/// The last part of the crate's folder, which is how the document calls it.
fn short_name(name: &str) -> String {
    let folder = folder_of(name);
    folder.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Rows of four cells whose first is a number and whose second is one word in backticks.
fn parse(text: &str) -> impl Iterator<Item = (&str, Row<'_>)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let cells: Vec<&str> =
            line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [layer, name, purpose, state] = cells[..] else { return None };
        layer.parse::<u64>().ok()?;
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        Some((name, Row { line: index + 1, layer, purpose, state }))
    })
}
