//! The prefix index beside its peers; see README.md.
mod backend;
mod growth;
mod measure;
mod one;
mod peers;
mod workload;

use std::collections::BTreeMap;
use std::process::Command;

use dynamo_kv_router::{ConcurrentRadixTreeCompressed, PositionalIndexer};

use backend::Tito;
use measure::{Counting, median};
use peers::{Chain, Dynamo, Smg};
use workload::Load;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const STRUCTURES: [&str; 6] = ["chain", "chain-map", "crtc", "positional", "smg", "tito"];
/// Larger is better for these; the others are better small.
const RATES: &str = "/s";

fn option(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.next().and_then(|_| args.next())
}

fn number(name: &str, default: u64) -> u64 {
    option(name).map_or(default, |text| text.parse().expect("a number"))
}

fn load() -> Load {
    let workers = number("--workers", 64) as u32;
    match option("--trace") {
        Some(path) => workload::trace(&path, workers),
        None => workload::conversations(workers, number("--memberships", 1_000_000) as usize, 20_000),
    }
}

fn one(name: &str) {
    let load = load();
    println!(
        "# {} memberships, {} distinct blocks, {} store events, {} queries",
        load.memberships, load.distinct, load.stores.len(), load.chains.len()
    );
    let rows = match name {
        "chain" => one::measure(&load, || Chain::new(&load, false)),
        "chain-map" => one::measure(&load, || Chain::new(&load, true)),
        "crtc" => one::measure(&load, || Dynamo(ConcurrentRadixTreeCompressed::new())),
        "positional" => one::measure(&load, || Dynamo(PositionalIndexer::new(32))),
        "smg" => one::measure(&load, || Smg::new(&load)),
        "tito" => one::measure(&load, || Tito::new(&load)),
        other => panic!("no structure {other}: one of {STRUCTURES:?}"),
    };
    for (name, value) in rows {
        println!("{name}\t{value}");
    }
}

/// Runs every structure in processes of its own and prints medians.
fn table() {
    let structures: Vec<String> = option("--only")
        .map_or_else(|| STRUCTURES.map(String::from).to_vec(), |only| only.split(',').map(String::from).collect());
    let this = std::env::current_exe().expect("a program has a path");
    let pass: Vec<String> = std::env::args().skip(2).collect();
    let mut values: BTreeMap<(usize, String), BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for _ in 0..number("--reps", 5) {
        for structure in &structures {
            let out = Command::new(&this).arg("one").arg(structure).args(&pass).output().expect("it starts");
            assert!(out.status.success(), "{structure}: {}", String::from_utf8_lossy(&out.stderr));
            for (row, line) in String::from_utf8_lossy(&out.stdout).lines().filter(|line| !line.starts_with('#')).enumerate() {
                let (name, value) = line.split_once('\t').expect("a name and a value");
                let row = values.keys().find(|key| key.1 == name).map_or(100 + row, |key| key.0);
                let value = value.parse().expect("a number");
                values.entry((row, name.into())).or_default().entry(structure.clone()).or_default().push(value);
            }
        }
    }
    println!("| | {} | tito / best peer |\n|---|{}", structures.join(" | "), "---|".repeat(structures.len() + 1));
    for ((_, name), by) in &values {
        let medians: BTreeMap<&str, f64> = by.iter().map(|(name, all)| (name.as_str(), median(all.clone()))).collect();
        let peers = medians.iter().filter(|(name, _)| **name != "tito").map(|(_, value)| *value);
        let best = if name.contains(RATES) { peers.fold(f64::MIN, f64::max) } else { peers.fold(f64::MAX, f64::min) };
        let cell = |name: &String| medians.get(name.as_str()).map_or("–".into(), |value| format!("{value:.*}", if *value < 100.0 { 2 } else { 0 }));
        let ratio = medians.get("tito").map_or("–".into(), |own| format!("{:.2}", own / best));
        println!("| {name} | {} | {ratio} |", structures.iter().map(cell).collect::<Vec<_>>().join(" | "));
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("one") => one(&std::env::args().nth(2).expect("a structure")),
        Some("growth") => growth::growth(number("--blocks", 1_000_000_000), number("--conversations", 3000) as usize),
        Some("fleet") => growth::fleet(number("--holders", 1024) as usize),
        Some("pairs") => one::pairs(&load(), number("--reps", 20) as usize),
        Some("table") | None => table(),
        Some(other) => panic!("{other}: one of table, one, pairs, growth, fleet"),
    }
}
