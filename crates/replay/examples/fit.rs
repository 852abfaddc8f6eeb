//! Fits how long the steps of a simulated engine take to the first half of a recording.
//!
//! `cargo xtask anchor fit` runs this. It changes one time after another for as long as the simulated TTFT and E2E latency
//! of the first half come closer to the recorded ones, writes the times, and prints both halves beside the recording.
#![expect(clippy::print_stdout, reason = "a developer command talks on its terminal")]

use anyhow::{Context as _, Result};
use tito_replay::Served;

#[path = "../tests/anchor/recording.rs"]
mod recording;

use recording::{Comparison, Engine, Pair, Recording, e2e_ms, ttft_ms};

/// Rounds at most; each tries every time longer and shorter.
const ROUNDS_MAX: u32 = 200;
/// By how much a time is changed at first, and when it ends (shares).
const STEP_FIRST: f64 = 0.5;
const STEP_LAST: f64 = 0.004;

/// One of the times of an engine.
type Time = fn(&mut Engine) -> &mut f64;

/// Every time, with the least change that is tried of it (microseconds).
const TIMES: [(Time, f64); 6] = [
    (|engine| &mut engine.step_us, 10.0),
    (|engine| &mut engine.prefill_token_us, 0.1),
    (|engine| &mut engine.prefill_attention_us, 10.0),
    (|engine| &mut engine.decode_sequence_us, 1.0),
    (|engine| &mut engine.decode_context_us, 1.0),
    (|engine| &mut engine.request_us, 10.0),
];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let recording = arguments.next().context("which recording? a .jsonl file")?;
    let path = arguments.next().context("which engine made it? a .json file, which is rewritten")?;
    let recording = Recording::parse(&std::fs::read_to_string(recording)?)?;
    let engine: Engine = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let half = recording.trace.len() / 2;
    let (engine, error) = fit(engine, |engine| error(&recording, engine, half));
    println!("mean error of a request's TTFT and E2E latency in the first half: {:.1} %", error * 100.0);
    let served = recording.simulated(&engine);
    for (name, part) in [("first", 0..half), ("second", half..recording.trace.len())] {
        println!("{name} half, {} requests: real, simulated", part.len());
        print(&Comparison::of(&recording, &served, part));
    }
    std::fs::write(&path, format!("{}\n", serde_json::to_string_pretty(&engine)?))?;
    Ok(())
}

/// Goes downhill, one time after another, in ever smaller steps.
fn fit(mut best: Engine, error: impl Fn(&Engine) -> f64) -> (Engine, f64) {
    let mut least = error(&best);
    let mut step = STEP_FIRST;
    for _ in 0..ROUNDS_MAX {
        let before = least;
        for (time, smallest) in TIMES {
            for direction in [1.0, -1.0] {
                let mut tried = best.clone();
                let value = time(&mut tried);
                let change = (*value * step).max(smallest) * direction;
                // Three digits are more than the recording can tell apart.
                *value = round(*value + change).max(0.0);
                let found = error(&tried);
                if found < least {
                    (best, least) = (tried, found);
                    break;
                }
            }
        }
        if before - least < 1e-4 {
            step /= 2.0;
        }
        if step < STEP_LAST {
            break;
        }
    }
    (best, least)
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Mean distance of simulated from recorded times, as a share of them: equal factors count the same up and down.
fn error(recording: &Recording, engine: &Engine, requests: usize) -> f64 {
    let served = recording.simulated(engine);
    let pairs = recording.measured.iter().zip(&served).take(requests);
    let distance = |simulated: f64, real: f64| (simulated / real).ln().abs();
    let sum: f64 = pairs
        .map(|(real, served): (_, &Served)| {
            distance(ttft_ms(served), real.ttft_ms) + distance(e2e_ms(served), real.e2e_ms)
        })
        .sum();
    sum / (2 * requests) as f64
}

fn print(comparison: &Comparison) {
    let Pair { real, simulated } = comparison.hit_rate;
    println!("  hit rate {:.2} %, {:.2} %", real * 100.0, simulated * 100.0);
    for (name, pairs) in [("TTFT", comparison.ttft), ("E2E", comparison.e2e)] {
        for (quantile, pair) in ["p50", "p90"].into_iter().zip(pairs) {
            let Pair { real, simulated } = pair;
            println!(
                "  {name} {quantile} {real:.1} ms, {simulated:.1} ms, {:.1} % off",
                pair.error() * 100.0
            );
        }
    }
}
