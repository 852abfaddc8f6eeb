//! How long one routing decision takes, from token ids to a charged target:
//! `cargo run --release -p tito-router --example decide`.
//!
//! A prompt of 590 blocks of 16 tokens is hashed, looked up and placed. One target in the fleet holds the whole prompt, 19
//! others its first 64 blocks, as a shared system prompt is held. Each part is also timed alone. Giving the charge back is
//! part of `select`, because without it the load would grow.
//!
//! The lines of ratios are the time of a whole decision over the time of a reference, which takes turns with it: what a few
//! lines over the standard library would do (`Plain`). `cargo xtask ratios` compares them with stored ones.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tito_kv_index::{Block, Hasher, Holder, Index, IndexConfig, Prompt};
use tito_policy::{Board, BoardConfig, Group, Overlap, PolicyKind, Prefix, Query, Slot, SlotSpec};
use tito_types::{Media, WorkerId};

const BLOCKS: usize = 590;
const BLOCK_TOKENS: usize = 16;
const HOLDERS: usize = 20;
const SHARED_BLOCKS: usize = 64;
/// Prompts taken in turn, so that no branch predictor learns one of them.
const PROMPTS: usize = 32;
const ROUNDS: usize = 4_000;
const REPEATS: usize = 50;
/// Short enough that most samples of a ratio are not interrupted; every prompt is taken.
const SAMPLE_ROUNDS: usize = PROMPTS;
const SAMPLES: usize = 1_000;

struct Bench {
    hasher: Hasher,
    index: Index,
    board: Board,
    slots: Vec<Slot>,
    prompts: Vec<Vec<u32>>,
    chain: Arc<[u64]>,
    overlaps: Vec<Overlap>,
}

impl Bench {
    fn new(targets: usize) -> Self {
        let hasher = Hasher::new(7);
        let index = Index::new(IndexConfig { bytes_max: 256 << 20 });
        let mut board = Board::new(BoardConfig::new(PolicyKind::Kv, 1));
        let mut slots = Vec::new();
        let mut holders = Vec::new();
        for target in 0..targets {
            slots.push(board.add(SlotSpec {
                worker: WorkerId::new(&format!("worker-{target:04}")),
                rank: 0,
                group: Group(0),
                capacity_tokens: 1_000_000,
                running_max: 256,
                continuations_max: u32::MAX,
            }));
            holders.push(index.add_holder());
        }
        let prompts: Vec<Vec<u32>> = (0..PROMPTS).map(prompt).collect();
        for (at, prompt) in prompts.iter().enumerate() {
            let chain = chain(&hasher, prompt);
            for holder in 0..HOLDERS {
                let held = if holder == 0 { BLOCKS } else { SHARED_BLOCKS };
                store(&index, holders[(at * 7 + holder) % targets], &chain[..held]);
            }
        }
        let (chain, overlaps) = (Arc::default(), Vec::with_capacity(64));
        Self { hasher, index, board, slots, prompts, chain, overlaps }
    }

    fn hash(&mut self, round: usize) {
        let prompt = Prompt {
            tokens: &self.prompts[round % PROMPTS],
            media: &Media::None,
            adapter: None,
            salt: None,
            block_tokens: BLOCK_TOKENS as u32,
        };
        self.chain = prompt.chain(&self.hasher);
    }

    fn find(&mut self) {
        self.overlaps.clear();
        let (slots, overlaps) = (&self.slots, &mut self.overlaps);
        self.index.find(black_box(&self.chain), |holder: Holder, blocks| {
            overlaps.push(Overlap {
                slot: slots[holder.number()],
                gpu_tokens: blocks * BLOCK_TOKENS as u32,
                cpu_tokens: 0,
                storage_tokens: 0,
            });
        });
    }

    fn select(&mut self) {
        let prefix = Prefix { block_tokens: BLOCK_TOKENS as u32, chain: Arc::clone(&self.chain) };
        let query = Query {
            groups: &[Group(0)],
            prompt_tokens: (BLOCKS * BLOCK_TOKENS) as u32,
            continuations: 1,
            overlaps: &self.overlaps,
            prefix: Some(&prefix),
            session: None,
            pin: None,
            exclude: &[],
        };
        let choice = self.board.choose(black_box(&query), Duration::ZERO).expect("every slot fits");
        self.board.end(choice.ticket);
    }
}

/// A router of a few lines: a chained hash per block, a map from hashes to holders, and a look at every load.
#[expect(
    clippy::disallowed_types,
    reason = "the reference is the standard library's map; nothing iterates it"
)]
struct Plain {
    holders: std::collections::HashMap<u64, Vec<u32>>,
    loads: Vec<u64>,
    overlaps: Vec<u32>,
    prompts: Vec<Vec<u32>>,
}

impl Plain {
    fn new(targets: usize) -> Self {
        let mut plain = Self {
            holders: <_>::default(),
            loads: vec![0; targets],
            overlaps: vec![0; targets],
            prompts: (0..PROMPTS).map(prompt).collect(),
        };
        for at in 0..PROMPTS {
            for (block, hash) in Self::hashes(&plain.prompts[at]).enumerate() {
                let held = |holder: &usize| *holder == 0 || block < SHARED_BLOCKS;
                let holders = (0..HOLDERS).filter(held).map(|holder| ((at * 7 + holder) % targets) as u32);
                plain.holders.entry(hash).or_default().extend(holders);
            }
        }
        plain
    }

    fn hashes(tokens: &[u32]) -> impl Iterator<Item = u64> {
        tokens.chunks(BLOCK_TOKENS).scan(0, |parent, block| {
            let mut hasher = std::hash::DefaultHasher::new();
            std::hash::Hash::hash(&(*parent, block), &mut hasher);
            *parent = std::hash::Hasher::finish(&hasher);
            Some(*parent)
        })
    }

    fn decide(&mut self, round: usize) -> usize {
        self.overlaps.fill(0);
        for hash in Self::hashes(&self.prompts[round % PROMPTS]) {
            let Some(holders) = self.holders.get(&hash) else { break };
            for holder in holders {
                self.overlaps[*holder as usize] += 1;
            }
        }
        let costs =
            self.loads.iter().zip(&self.overlaps).map(|(load, held)| load + BLOCKS as u64 - u64::from(*held));
        costs.enumerate().min_by_key(|(_, cost)| *cost).map_or(0, |(target, _)| target)
    }
}

/// The time of one round over the time of one round of the reference; of each the shortest of many short samples, which other
/// load on the machine did not interrupt.
fn ratio(mut round: impl FnMut(usize), mut reference: impl FnMut(usize)) -> f64 {
    let sample = |rounds: usize, round: &mut dyn FnMut(usize)| {
        let began = Instant::now();
        (0..rounds).for_each(round);
        began.elapsed().as_secs_f64() / rounds as f64
    };
    let mut shortest = [f64::INFINITY; 2];
    for _ in 0..SAMPLES {
        shortest[0] = shortest[0].min(sample(SAMPLE_ROUNDS, &mut round));
        shortest[1] = shortest[1].min(sample(SAMPLE_ROUNDS, &mut reference));
    }
    shortest[0] / shortest[1]
}

fn prompt(at: usize) -> Vec<u32> {
    (0..BLOCKS * BLOCK_TOKENS).map(|token| ((token * 31 + at * 7919) % 150_000) as u32).collect()
}

fn chain(hasher: &Hasher, tokens: &[u32]) -> Vec<u64> {
    let mut chain = Vec::new();
    hasher.extend(hasher.root(BLOCK_TOKENS as u32, None, None), tokens, BLOCK_TOKENS, &mut chain);
    chain
}

fn store(index: &Index, holder: Holder, chain: &[u64]) {
    let blocks: Vec<Block> =
        chain.iter().map(|&chain| Block { chain, engine: chain.rotate_left(9) }).collect();
    index.store(holder, None, &blocks).expect("it begins a sequence");
}

/// Nanoseconds per round: the median of repeats.
fn time(mut round: impl FnMut(usize)) -> f64 {
    let mut samples: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let began = Instant::now();
            (0..ROUNDS).for_each(&mut round);
            began.elapsed().as_nanos() as f64 / ROUNDS as f64
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    samples[REPEATS / 2]
}

#[expect(clippy::print_stdout, reason = "the numbers are what this is for")]
fn main() {
    println!("{:>8} {:>9} {:>9} {:>11} {:>10}", "targets", "hash ns", "find ns", "select ns", "whole ns");
    for targets in [64, 1024] {
        let mut bench = Bench::new(targets);
        let hash = time(|round| bench.hash(round));
        let find = time(|_| bench.find());
        assert_eq!(bench.overlaps.len(), HOLDERS, "every holder is found");
        let select = time(|_| bench.select());
        let whole = time(|round| {
            bench.hash(round);
            bench.find();
            bench.select();
        });
        println!("{targets:>8} {hash:>9.0} {find:>9.0} {select:>11.0} {whole:>10.0}");
        let mut plain = Plain::new(targets);
        let decide = |round: usize| {
            bench.hash(round);
            bench.find();
            bench.select();
        };
        let ratio = ratio(decide, |round| _ = black_box(plain.decide(round)));
        println!("ratio decide-{targets}-targets {ratio:.3}");
    }
}
