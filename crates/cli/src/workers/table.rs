//! The table, one line per target, and below it why things are as they are, and what an engine expects or cannot do.

use std::fmt::Write as _;

use super::reply::{Load, Target, Worker};

const COLUMNS: usize = 11;
const HEAD: [&str; COLUMNS] = [
    "WORKER",
    "RANK",
    "STATE",
    "MODEL",
    "IN-FLIGHT",
    "PREFILL",
    "DECODE",
    "OTHERS",
    "INDEX",
    "BLOCKS",
    "GAPS",
];
/// Columns of numbers stand to the right.
const NUMBERS: [bool; COLUMNS] = [false, true, false, false, true, true, true, true, false, true, true];
/// Shown only where some engine is asked what others have sent to it.
const OTHERS: usize = 7;

type Row = [String; COLUMNS];

pub(super) fn render(workers: &[Worker]) -> String {
    if workers.is_empty() {
        return "no worker is configured\n".to_owned();
    }
    let rows: Vec<Row> = workers.iter().flat_map(rows).collect();
    let asked = |target: &Target| target.others_unknown.is_some() || others(&target.load) != "-";
    let others = workers.iter().flat_map(|worker| &worker.targets).any(asked);
    let head = HEAD.map(str::to_owned);
    let mut widths = [0; COLUMNS];
    for row in std::iter::once(&head).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text: String = std::iter::once(&head).chain(&rows).map(|row| line(row, widths, others)).collect();
    let reasons: Vec<String> = workers.iter().flat_map(reasons).collect();
    if !reasons.is_empty() {
        text.push('\n');
        for reason in reasons {
            writeln!(text, "{reason}").expect("a string takes any text");
        }
    }
    text
}

/// Text from elsewhere, without what would move the cursor.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

fn line(row: &Row, widths: [usize; COLUMNS], others: bool) -> String {
    let cells = row.iter().zip(widths).zip(NUMBERS).enumerate();
    let cells = cells.filter(|(column, _)| others || *column != OTHERS);
    let cells = cells.map(
        |(_, ((cell, width), number))| {
            if number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        },
    );
    format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
}

/// One per target; a worker without any has one all the same.
fn rows(worker: &Worker) -> Vec<Row> {
    let model = worker.engine.as_ref().and_then(|engine| engine.models.first());
    let model = model.map_or("-", String::as_str);
    let row = |rank: String, target: [String; 7]| {
        let [in_flight, prefill, decode, others, index, blocks, gaps] = target;
        let [id, state, model, index] = [&worker.id, &worker.state, model, &index].map(plain);
        [id, rank, state, model, in_flight, prefill, decode, others, index, blocks, gaps]
    };
    if worker.targets.is_empty() {
        return vec![row("-".to_owned(), [(); 7].map(|()| "-".to_owned()))];
    }
    worker.targets.iter().map(|target| row(target.rank.to_string(), cells(target))).collect()
}

fn cells(target: &Target) -> [String; 7] {
    let Target { rank: _, load, others_unknown: _, index } = target;
    let blocks = &index.blocks;
    let blocks = match (blocks.cpu, blocks.storage) {
        (0, 0) => blocks.gpu.to_string(),
        (cpu, 0) => format!("{}+{cpu}", blocks.gpu),
        (cpu, storage) => format!("{}+{cpu}+{storage}", blocks.gpu),
    };
    [
        load.in_flight.to_string(),
        load.prefill_tokens.to_string(),
        load.decode_tokens.to_string(),
        others(load),
        index.state.clone(),
        blocks,
        index.counters.gaps.to_string(),
    ]
}

/// Requests and the tokens they hold.
fn others(load: &Load) -> String {
    match (load.other_requests, load.other_tokens) {
        (Some(requests), Some(tokens)) => format!("{requests}/{tokens}"),
        _ => "-".to_owned(),
    }
}

fn reasons(worker: &Worker) -> Vec<String> {
    let Worker { id, state, reason, engine, targets } = worker;
    let mut reasons = Vec::new();
    reasons.extend(reason.as_ref().map(|reason| format!("{id} is {state}: {reason}")));
    if let Some(engine) = engine {
        let pixels = engine.pixels.as_ref();
        reasons.extend(pixels.map(|pixels| format!("{id} takes {pixels} pixels, as --engine says")));
        if engine.kv_replay == Some(false) {
            reasons.push(format!("{id} cannot replay its KV events: what is known is lost with every gap"));
        }
    }
    for Target { rank, others_unknown, index, .. } in targets {
        let unknown = others_unknown.as_ref();
        reasons.extend(
            unknown.map(|why| format!("{id} rank {rank}: what others have sent is not known: {why}")),
        );
        let state = &index.state;
        reasons.extend(index.reason.as_ref().map(|why| format!("{id} rank {rank}: index {state}: {why}")));
        let media = index.media_inexact.as_ref();
        reasons.extend(
            media.map(|why| format!("{id} rank {rank}: media are matched up to the first item only: {why}")),
        );
        let not_compared = index.not_compared.as_ref();
        reasons.extend(
            not_compared.map(|why| format!("{id} rank {rank}: its cached tokens are not compared: {why}")),
        );
    }
    reasons.into_iter().map(|reason| plain(&reason)).collect()
}
