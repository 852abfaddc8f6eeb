//! Rules about single lines: leftovers, sleeping tests, fixed ports and paths of one machine.
//!
//! A line that must break a rule says so, on itself or on the line before: `tidy-allow(ports): the reason`.

use super::Finding;
use super::policy::{DATA_FOLDERS, LINE_RULES_EXEMPT};
use crate::workspace::extension;

/// A rule that looks at one line at a time.
struct Rule {
    /// What an allowance calls it.
    name: &'static str,
    /// Whether it concerns this file.
    concerns: fn(path: &str, text: &str) -> bool,
    /// What is wrong with the line, if anything.
    finds: fn(line: &str) -> Option<String>,
    remedy: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        name: "leftovers",
        concerns: |path, _| is_code(path),
        finds: leftover,
        remedy: "finish it or delete it: what is missing belongs in an issue, not in the code",
    },
    Rule {
        name: "sleep",
        concerns: |path, text| is_test(path) && !text.contains("start_paused"),
        finds: sleep,
        remedy: "wait for a state with a deadline, or pause the clock with `start_paused`",
    },
    Rule {
        name: "ports",
        concerns: |path, _| is_test(path),
        finds: fixed_port,
        remedy: "bind port 0 and read the address back; where nothing is opened, write 192.0.2.1 or a name in .test",
    },
    Rule {
        name: "paths",
        concerns: |path, _| path != "Cargo.lock",
        finds: machine_path,
        remedy: "write it from the root of the checkout, or take it as an argument",
    },
];

/// Every finding about the lines of one file.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    if LINE_RULES_EXEMPT.contains(&path) || DATA_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        return Vec::new();
    }
    let (mut allowances, mut findings) = allowances(path, text);
    for rule in RULES.iter().filter(|rule| (rule.concerns)(path, text)) {
        for (index, line) in text.lines().enumerate() {
            let Some(problem) = (rule.finds)(line) else { continue };
            let mut matching = allowances.iter_mut().filter(|allowance| allowance.covers(rule.name, index));
            match matching.next() {
                Some(allowance) => allowance.used = true,
                None => findings.push(Finding::new(path, index + 1, problem, rule.remedy)),
            }
        }
    }
    for allowance in allowances.iter().filter(|allowance| !allowance.used) {
        let problem = format!("tidy-allow({}) allows nothing here", allowance.rule);
        findings.push(Finding::new(path, allowance.index + 1, problem, "delete it"));
    }
    findings
}

/// `tidy-allow(rule): reason` on one line.
struct Allowance<'a> {
    rule: &'a str,
    /// Line, counted from 0.
    index: usize,
    used: bool,
}

impl Allowance<'_> {
    fn covers(&self, rule: &str, index: usize) -> bool {
        self.rule == rule && (self.index == index || self.index + 1 == index)
    }
}

/// The allowances of a file that give a reason, and a finding for each that does not.
fn allowances<'a>(path: &str, text: &'a str) -> (Vec<Allowance<'a>>, Vec<Finding>) {
    let (mut allowances, mut findings) = (Vec::new(), Vec::new());
    if !is_code(path) {
        return (allowances, findings);
    }
    for (index, line) in text.lines().enumerate() {
        let Some((_, rest)) = line.split_once("tidy-allow(") else { continue };
        let (rule, reason) = rest.split_once(')').unwrap_or((rest, ""));
        if reason.strip_prefix(':').is_some_and(|reason| !reason.trim().is_empty()) {
            allowances.push(Allowance { rule, index, used: false });
        } else {
            findings.push(Finding::new(
                path,
                index + 1,
                "an allowance without a reason",
                "write `tidy-allow(rule): why`",
            ));
        }
    }
    (allowances, findings)
}

/// Files a machine reads, as opposed to prose.
fn is_code(path: &str) -> bool {
    matches!(extension(path), "" | "rs" | "toml" | "proto" | "py" | "sh" | "yml" | "yaml")
        && path != "LICENSE"
}

fn is_test(path: &str) -> bool {
    extension(path) == "rs" && (path.ends_with("tests.rs") || path.contains("/tests/"))
}

fn leftover(line: &str) -> Option<String> {
    const MACROS: [&str; 2] = ["todo!", "unimplemented!"];
    const NOTES: [&str; 2] = ["FIXME", "XXX"];
    let ignored = line.contains("#[ignore") || line.contains(", ignore)]");
    let macros = MACROS.into_iter().filter(|mark| starts_word(line, mark));
    let notes = NOTES.into_iter().filter(|mark| is_word(line, mark));
    let found = macros.chain(notes).chain(ignored.then_some("#[ignore]")).next()?;
    Some(format!("{found} left in"))
}

fn sleep(line: &str) -> Option<String> {
    // `.sleep(` is a method of its own, such as the engine's sleep mode; `fn sleep(` defines one.
    let calls = ["sleep(", "sleep_until("].into_iter().any(|mark| {
        line.match_indices(mark).any(|(at, _)| {
            let before = &line[..at];
            let path = before.ends_with("time::") || before.ends_with("thread::");
            let bare =
                !before.ends_with("fn ") && before.chars().next_back().is_none_or(|c| " (=!&{,".contains(c));
            path || bare
        })
    });
    calls.then(|| "a test that sleeps".to_owned())
}

fn fixed_port(line: &str) -> Option<String> {
    const HOSTS: [&str; 8] = [
        "127.0.0.1:",
        "localhost:",
        "0.0.0.0:",
        "[::1]:",
        "[::]:",
        "[127, 0, 0, 1], ",
        "Ipv4Addr::LOCALHOST, ",
        "Ipv4Addr::UNSPECIFIED, ",
    ];
    // Port 0 asks for a free one, and on port 1 nobody listens.
    let port = HOSTS.into_iter().find_map(|host| {
        let mut ports =
            line.match_indices(host).filter_map(|(at, _)| leading_number(&line[at + host.len()..]));
        ports.find(|port| *port > 1)
    })?;
    Some(format!("port {port} is fixed"))
}

fn leading_number(text: &str) -> Option<u32> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn machine_path(line: &str) -> Option<String> {
    const ROOTS: [&str; 4] = ["/home/", "/root/", "/work/", "/Users/"];
    let stands_alone = |at: usize| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"_-.~$}])*/".contains(c))
    };
    let found = ROOTS.into_iter().find(|root| line.match_indices(root).any(|(at, _)| stands_alone(at)))?;
    Some(format!("{found} is a path of one machine"))
}

/// Whether the mark occurs with no identifier running into it from the left.
fn starts_word(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| !line[..at].ends_with(is_identifier))
}

/// Whether the mark occurs as a word of its own.
fn is_word(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        !line[..at].ends_with(is_identifier) && !line[at + mark.len()..].starts_with(is_identifier)
    })
}

fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests;
