//! Rules about Rust files as wholes: how long they are and where modules and tests lie.

use super::Finding;
use super::policy::{FILE_LINES_MAX, LONG_FILE_LINES_MAX, LONG_REASON, LONG_REASON_WITHIN_LINES};
use crate::workspace::extension;

/// Every finding about one file as a whole.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    if extension(path) != "rs" {
        return Vec::new();
    }
    [length(path, text), module_file(path), inline_tests(path, text)].into_iter().flatten().collect()
}

fn length(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    let reason = text.lines().take(LONG_REASON_WITHIN_LINES).any(gives_reason);
    let limit = if reason { LONG_FILE_LINES_MAX } else { FILE_LINES_MAX };
    (lines > limit).then(|| {
        let remedy = if reason {
            "split it by responsibility".to_owned()
        } else {
            format!("split it by responsibility, or begin a comment in its first {LONG_REASON_WITHIN_LINES} lines with `{LONG_REASON}`")
        };
        Finding::new(path, lines, format!("{lines} lines, the limit is {limit}"), remedy)
    })
}

fn gives_reason(line: &str) -> bool {
    let comment =
        line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim_start());
    comment.and_then(|text| text.strip_prefix(LONG_REASON)).is_some_and(|reason| !reason.trim().is_empty())
}

fn module_file(path: &str) -> Option<Finding> {
    // Cargo takes tests/foo.rs for a test binary, so helpers of integration tests have no other place.
    (path.ends_with("/mod.rs") && !path.contains("/tests/")).then(|| {
        let folder = path.trim_end_matches("/mod.rs");
        Finding::new(path, 1, "a module is named by its file", format!("move it to {folder}.rs"))
    })
}

fn inline_tests(path: &str, text: &str) -> Option<Finding> {
    let line = text.lines().position(|line| line.trim() == "mod tests {")?;
    let stem = path.trim_end_matches(".rs").trim_end_matches("/lib").trim_end_matches("/main");
    let remedy = format!("move them to {stem}/tests.rs and write `mod tests;`");
    Some(Finding::new(path, line + 1, "tests inside the file they test", remedy))
}

#[cfg(test)]
mod tests;
