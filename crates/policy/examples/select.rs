//! How long a choice takes: `cargo run --release -p tito-policy --example select`.
//!
//! `choose + end` is what a request costs the board, `begin + end` the part of it that charges a given slot and gives
//! the charge back; `select`, their difference, is the choice itself.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tito_policy::{Board, BoardConfig, Charge, Group, Overlap, PolicyKind, Prefix, Query, Slot, SlotSpec};
use tito_types::WorkerId;

const HOLDERS: usize = 20;
const ROUNDS: u32 = 20_000;
const QUERIES: usize = 64;
const REPEATS: usize = 100;

#[expect(clippy::print_stdout, reason = "the numbers are what this is for")]
fn main() {
    println!(
        "{:>8} {:>12} {:>14} {:>18} {:>22}",
        "targets", "select ns", "begin+end ns", "choose+end ns", "with prefix, ns"
    );
    for targets in [64, 1024] {
        let (mut board, slots) = board(targets);
        let overlaps: Vec<Vec<Overlap>> = (0..QUERIES).map(|query| holders(&slots, query)).collect();
        let prefixes: Vec<Prefix> = (0..QUERIES as u64).map(prefix).collect();
        let plain = best(|| {
            time(|round| {
                let query = query(&overlaps[round % QUERIES], None);
                let choice = board.choose(black_box(&query), Duration::ZERO).expect("every slot fits");
                board.end(choice.ticket);
            })
        });
        let charge = best(|| {
            time(|round| {
                let slot = overlaps[round % QUERIES][0].slot;
                let ticket = board.begin(
                    black_box(slot),
                    Charge { prompt_tokens: 9440, uncached_tokens: 4000, continuations: 1 },
                );
                board.end(ticket);
            })
        });
        let expected = best(|| {
            time(|round| {
                let at = round % QUERIES;
                let query = query(&overlaps[at], Some(&prefixes[at]));
                let choice = board.choose(black_box(&query), Duration::ZERO).expect("every slot fits");
                board.end(choice.ticket);
            })
        });
        println!("{targets:>8} {:>12.0} {charge:>14.0} {plain:>18.0} {expected:>22.0}", plain - charge);
    }
}

fn query<'a>(overlaps: &'a [Overlap], prefix: Option<&'a Prefix>) -> Query<'a> {
    Query {
        groups: &[Group(0)],
        prompt_tokens: 9440,
        continuations: 1,
        overlaps,
        prefix,
        session: None,
        pin: None,
        exclude: &[],
    }
}

/// Targets with different loads.
fn board(targets: usize) -> (Board, Vec<Slot>) {
    let mut board = Board::new(BoardConfig::new(PolicyKind::Kv, 1));
    let spec = |index| SlotSpec {
        worker: WorkerId::new(&format!("worker-{index:04}")),
        rank: 0,
        group: Group(0),
        capacity_tokens: 1_000_000,
        running_max: 256,
        continuations_max: 1024,
    };
    let slots: Vec<Slot> = (0..targets).map(|index| board.add(spec(index))).collect();
    for (index, slot) in slots.iter().enumerate() {
        let uncached_tokens = (index * 7919 % 10_007) as u32;
        board.begin(*slot, Charge { prompt_tokens: 10_007, uncached_tokens, continuations: 1 });
    }
    (board, slots)
}

/// Twenty slots anywhere, each with some of 590 blocks of 16 tokens.
fn holders(slots: &[Slot], query: usize) -> Vec<Overlap> {
    let overlap = |index: usize| Overlap {
        slot: slots[(query * 131 + index * 617) % slots.len()],
        gpu_tokens: ((query + index) * 37 % 590 * 16) as u32,
        cpu_tokens: 0,
        storage_tokens: 0,
    };
    (0..HOLDERS).map(overlap).collect()
}

/// 590 blocks, of which the first 100 are the same for all queries.
fn prefix(query: u64) -> Prefix {
    let hash =
        |block: u64| (block + if block < 100 { 0 } else { query << 32 }).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Prefix { block_tokens: 16, chain: (1..=590).map(hash).collect::<Arc<[u64]>>() }
}

fn time(mut run: impl FnMut(usize)) -> f64 {
    let started = Instant::now();
    for round in 0..ROUNDS {
        run(round as usize);
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
}

/// The least of several runs: what else the machine does only adds.
fn best(mut run: impl FnMut() -> f64) -> f64 {
    (0..REPEATS).map(|_| run()).fold(f64::INFINITY, f64::min)
}
