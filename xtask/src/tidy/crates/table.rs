//! The table of dependencies in the root manifest has no row that no crate uses.

use super::names;
use crate::tidy::Finding;
use crate::tidy::policy::MANIFEST;
use crate::workspace::Crate;

const TABLE: &str = "[workspace.dependencies]";

/// A finding for each dependency of the table that no member names.
pub(crate) fn unused(crates: &[Crate], manifest: &str) -> Vec<Finding> {
    let rows = manifest.lines().enumerate().skip_while(|(_, line)| line.trim() != TABLE).skip(1);
    let rows = rows.take_while(|(_, line)| !line.starts_with('['));
    let mut findings = Vec::new();
    for (index, row) in rows.filter(|(_, row)| !row.trim_start().starts_with('#')) {
        let Some((name, _)) = row.split_once(['=', '.']) else { continue };
        let name = name.trim();
        let used = crates.iter().any(|member| member.manifest.lines().any(|line| names(line, name)));
        if !used {
            let problem = format!("no crate uses {name}");
            findings.push(Finding::new(MANIFEST, index + 1, problem, "remove it from the table"));
        }
    }
    findings
}
