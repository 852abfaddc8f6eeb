//! What is stored, asked for and removed.
use std::collections::{HashMap, HashSet};

use dynamo_kv_router::protocols::{LocalBlockHash, compute_seq_hash_for_block};

#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
    pub fn range(&mut self, from: usize, to: usize) -> usize {
        from + (self.next() % (to - from) as u64) as usize
    }
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[derive(Clone, Copy)]
pub struct Block {
    pub content: u64,
    pub chain: u64,
}

#[derive(Clone)]
pub enum Change {
    Store { parent: Option<u64>, blocks: Vec<Block> },
    /// Chain hashes.
    Remove(Vec<u64>),
}

#[derive(Clone)]
pub struct Event {
    pub worker: u32,
    pub change: Change,
}

pub struct Load {
    pub workers: u32,
    pub stores: Vec<Event>,
    /// Each conversation from its last block to the first of its own, 16 per event.
    pub tail_first: Vec<Event>,
    /// The same from the first to the last.
    pub head_first: Vec<Event>,
    /// Ends of conversations removed and stored again.
    pub churn: Vec<Event>,
    pub memberships: usize,
    pub distinct: usize,
    /// Content hashes, and the same chained.
    pub contents: Vec<Vec<u64>>,
    pub chains: Vec<Vec<u64>>,
    held: Vec<HashSet<u64>>,
}

pub fn chain(contents: &[u64]) -> Vec<u64> {
    compute_seq_hash_for_block(&contents.iter().map(|&content| LocalBlockHash(content)).collect::<Vec<_>>())
}

impl Event {
    pub fn blocks(&self) -> usize {
        match &self.change {
            Change::Store { blocks, .. } => blocks.len(),
            Change::Remove(chains) => chains.len(),
        }
    }
}

impl Load {
    fn new(workers: u32) -> Self {
        Self {
            workers,
            stores: vec![],
            tail_first: vec![],
            head_first: vec![],
            churn: vec![],
            memberships: 0,
            distinct: 0,
            contents: vec![],
            chains: vec![],
            held: vec![HashSet::new(); workers as usize],
        }
    }

    /// What each worker has of a query, by brute force.
    pub fn truth(&self, query: usize) -> HashMap<u32, u32> {
        let leading = |worker: u32| {
            let held = &self.held[worker as usize];
            self.chains[query].iter().take_while(|chain| held.contains(chain)).count() as u32
        };
        (0..self.workers).map(|worker| (worker, leading(worker))).filter(|&(_, blocks)| blocks > 0).collect()
    }

    pub fn fullest(&self) -> u32 {
        (0..self.workers).max_by_key(|&worker| self.held[worker as usize].len()).unwrap_or(0)
    }

    /// `worker` stores a conversation in chunks, its last `decoded` blocks one by one; what it has is left out. Blocks
    /// from `own` on are removed later.
    fn converse(&mut self, worker: u32, contents: &[u64], chains: &[u64], decoded: usize, own: usize, seen: &mut HashSet<u64>) {
        let held = &mut self.held[worker as usize];
        let first = chains.iter().position(|chain| !held.contains(chain)).unwrap_or(chains.len());
        let decode_from = chains.len().saturating_sub(decoded).max(first);
        let mut at = first;
        while at < chains.len() {
            let end = if at < decode_from { (at + 128).min(decode_from) } else { at + 1 };
            let blocks = (at..end).map(|at| Block { content: contents[at], chain: chains[at] }).collect();
            let parent = at.checked_sub(1).map(|parent| chains[parent]);
            self.stores.push(Event { worker, change: Change::Store { parent, blocks } });
            at = end;
        }
        for &chain in &chains[first..] {
            held.insert(chain);
            seen.insert(chain);
        }
        self.memberships += chains.len() - first;
        let own = &chains[first.max(own)..];
        let event = |chains: &[u64]| Event { worker, change: Change::Remove(chains.to_vec()) };
        let backwards: Vec<u64> = own.iter().rev().copied().collect();
        self.tail_first.extend(backwards.chunks(16).map(event));
        self.head_first.extend(own.chunks(16).map(event));
    }

    fn churn_end(&mut self, worker: u32, contents: &[u64], chains: &[u64]) {
        let from = chains.len() * 3 / 4;
        let backwards: Vec<u64> = chains[from..].iter().rev().copied().collect();
        self.churn.extend(backwards.chunks(16).map(|chains| Event { worker, change: Change::Remove(chains.to_vec()) }));
        for at in (from..chains.len()).step_by(16) {
            let blocks = (at..(at + 16).min(chains.len())).map(|at| Block { content: contents[at], chain: chains[at] }).collect();
            self.churn.push(Event { worker, change: Change::Store { parent: Some(chains[at - 1]), blocks } });
        }
    }
}

const PREFIXES: usize = 256;

pub fn conversations(workers: u32, memberships: usize, queries: usize) -> Load {
    let mut random = Random(42);
    let prefixes: Vec<Vec<u64>> =
        (0..PREFIXES).map(|_| (0..random.range(16, 257)).map(|_| random.next()).collect()).collect();
    let weights: Vec<f64> = (1..=PREFIXES).map(|rank| 1.0 / rank as f64).collect();
    let total: f64 = weights.iter().sum();
    let pick = |random: &mut Random| {
        let mut left = random.share() * total;
        weights.iter().position(|weight| { left -= weight; left < 0.0 }).unwrap_or(PREFIXES - 1)
    };
    let (mut load, mut seen, mut all) = (Load::new(workers), HashSet::new(), vec![]);
    while load.memberships < memberships {
        let mut contents = prefixes[pick(&mut random)].clone();
        let own = contents.len();
        contents.resize_with(random.range(128, 1025).max(own + 1), || random.next());
        let chains = chain(&contents);
        let home = (random.next() % u64::from(workers)) as u32;
        load.converse(home, &contents, &chains, 32, own, &mut seen);
        if random.share() < 0.25 {
            let second = (random.next() % u64::from(workers)) as u32;
            if second != home {
                load.converse(second, &contents, &chains, 32, own, &mut seen);
            }
        }
        if all.len() < 600 {
            load.churn_end(home, &contents, &chains);
        }
        all.push(contents);
    }
    for _ in 0..queries {
        let kind = random.share();
        let mut query = if kind < 0.6 {
            all[random.range(0, all.len())].clone()
        } else if kind < 0.9 {
            prefixes[pick(&mut random)].clone()
        } else {
            vec![]
        };
        let len = if kind < 0.6 { query.len() + random.range(4, 33) } else { random.range(128, 1025).max(query.len() + 1) };
        query.resize_with(len, || random.next());
        load.contents.push(query);
    }
    finish(load, &seen)
}

fn finish(mut load: Load, seen: &HashSet<u64>) -> Load {
    load.distinct = seen.len();
    load.chains = load.contents.iter().map(|query| chain(query)).collect();
    load
}

/// A Mooncake trace: each id is 32 blocks; a request goes where the longest prefix is and asks, before, for what was cached
/// and fresh blocks for the rest. Nothing is evicted and nothing churned.
pub fn trace(path: &str, workers: u32) -> Load {
    let mut random = Random(42);
    let text = std::fs::read_to_string(path).expect("the trace can be read");
    let (mut load, mut seen) = (Load::new(workers), HashSet::new());
    for line in text.lines() {
        let Some(ids) = line.split_once("\"hash_ids\": [").and_then(|(_, ids)| ids.split_once(']')) else { continue };
        let ids = ids.0.split(',').filter_map(|id| id.trim().parse::<u64>().ok());
        let contents: Vec<u64> = ids.flat_map(|id| (0..32).map(move |at| Random(id * 32 + at).next())).collect();
        if contents.is_empty() {
            continue;
        }
        let chains = chain(&contents);
        let cached = chains.iter().take_while(|chain| seen.contains(*chain)).count();
        let mut query = contents[..cached].to_vec();
        query.resize_with(contents.len(), || random.next());
        load.contents.push(query);
        // The first id is the same everywhere: a match no longer than it says nothing.
        let best = (0..workers).max_by_key(|&worker| {
            let held = &load.held[worker as usize];
            let blocks = chains.iter().take_while(|chain| held.contains(*chain)).count();
            (if blocks > 32 { blocks } else { 0 }, random.next() % 1024, worker)
        });
        load.converse(best.unwrap_or(0), &contents, &chains, 0, 0, &mut seen);
    }
    finish(load, &seen)
}
