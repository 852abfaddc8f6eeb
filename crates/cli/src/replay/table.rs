//! A table per number of workers, one line per policy.

use std::fmt::Write as _;

use tito_replay::{PolicyReport, Report, TurnShares};

const HEAD: [&str; 10] = [
    "POLICY",
    "HIT",
    "BEST-ONE",
    "BEST-FLEET",
    "QUEUE-P50",
    "QUEUE-P99",
    "BALANCE",
    "TTFT-P50",
    "TTFT-P90",
    "TTFT-P99",
];

type Row = [String; 10];

pub(super) fn render(reports: &[Report]) -> String {
    reports.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(report: &Report) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(report.policies.iter().map(row));
    let mut widths = [0; 10];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let Report { workers, requests, prompt_tokens, seconds, turns, .. } = report;
    let mut text =
        format!("{workers} workers, {requests} requests in {seconds:.0} s, {prompt_tokens} prompt tokens\n");
    let TurnShares { next, named, ambiguous } = *turns;
    writeln!(
        text,
        "next turns: {} of the requests; outputs that later prompts can have: {}; ambiguous: {}",
        share(next),
        share(named),
        share(ambiguous)
    )
    .expect("a string takes any text");
    for row in &rows {
        text.push_str(&line(row, widths));
    }
    for policy in report.policies.iter().filter(|policy| policy.rejected > 0) {
        let PolicyReport { policy, rejected, .. } = policy;
        writeln!(text, "{policy}: {rejected} requests fit no worker's KV room and were left out")
            .expect("a string takes any text");
    }
    text
}

/// Names stand to the left, numbers to the right.
fn line(row: &Row, widths: [usize; 10]) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
        if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
}

fn row(policy: &PolicyReport) -> Row {
    let PolicyReport { policy, hit_rate, best, wait, balance, ttft, .. } = policy;
    let seconds = |seconds: f64| format!("{seconds:.3}s");
    [
        (*policy).to_owned(),
        cell(*hit_rate, share),
        cell(best.one_cache, share),
        cell(best.fleet, share),
        cell(wait.map(|wait| wait.p50), seconds),
        cell(wait.map(|wait| wait.p99), seconds),
        cell(balance.prefill, |ratio| format!("{ratio:.2}")),
        cell(ttft.map(|ttft| ttft.p50), seconds),
        cell(ttft.map(|ttft| ttft.p90), seconds),
        cell(ttft.map(|ttft| ttft.p99), seconds),
    ]
}

/// A dash where there is no number.
fn cell(number: Option<f64>, shown: impl FnOnce(f64) -> String) -> String {
    number.map_or_else(|| "–".to_owned(), shown)
}

fn share(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
