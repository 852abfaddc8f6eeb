//! Random events of several engines on one index, against plain sets of prefixes.

use std::collections::BTreeMap;

use tito_test_support::random::Random;
use tito_types::{EngineHash, KvEvent, StoredBlocks};

use super::{SIZE, TIERS, stored};
use crate::{Hasher, Index, IndexConfig, Table, TierOverlap};

const RUNS: u64 = 120;
const EVENTS: usize = 150;
/// Blocks of a prompt at most.
const DEPTH: usize = 6;

/// The load of the adapter that a prompt is for, 0 without one, then a list of block kinds; a block of kind `k` holds the
/// token `k` as often as blocks are large.
type Prefix = Vec<u32>;

struct Engine {
    table: Table,
    /// Decides its names, as the seed of an engine's hash does.
    seed: u64,
    /// Tokens per block.
    size: u32,
    /// How often the adapter was loaded.
    loads: u32,
    /// Whether it has stored anything yet.
    seen: bool,
    /// By tier, with the number of copies.
    held: [BTreeMap<Prefix, u32>; 3],
}

impl Engine {
    fn new(seed: u64) -> Self {
        Self { table: Table::new(SIZE), seed, size: SIZE, loads: 1, seen: false, held: Default::default() }
    }

    fn name(&self, prefix: &[u32]) -> EngineHash {
        let fold = |name: u64, kind: &u32| {
            let name = (name ^ u64::from(kind + 11)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            name ^ (name >> 32)
        };
        EngineHash(prefix.iter().fold(self.seed << 8 | u64::from(self.size), fold))
    }

    fn tokens(&self, kinds: &[u32]) -> Vec<u32> {
        kinds.iter().flat_map(|&kind| std::iter::repeat_n(kind, self.size as usize)).collect()
    }

    /// Stores one to three blocks after a prefix that some tier has and that can still be asked for, or at the start.
    fn store(&mut self, random: &mut Random) -> KvEvent {
        let roots = [vec![0], vec![self.loads]];
        let live = |prefix: &&Prefix| prefix.len() <= DEPTH && [0, self.loads].contains(&prefix[0]);
        let known: Vec<&Prefix> =
            self.held.iter().flat_map(BTreeMap::keys).filter(live).chain(&roots).collect();
        let parent = known[random.index(known.len())].clone();
        let blocks = 1 + random.index(3.min(DEPTH + 1 - parent.len()));
        let tier = random.index(5).saturating_sub(2);
        self.store_after(&parent, blocks, tier, random)
    }

    fn store_after(&mut self, parent: &[u32], blocks: usize, tier: usize, random: &mut Random) -> KvEvent {
        let kinds: Vec<u32> = (0..blocks).map(|_| random.index(3) as u32).collect();
        let whole = [parent, &kinds].concat();
        let prefixes = (parent.len() + 1..=whole.len()).map(|len| whole[..len].to_vec());
        let hashes = prefixes.clone().map(|prefix| self.name(&prefix)).collect();
        for prefix in prefixes {
            *self.held[tier].entry(prefix).or_default() += 1;
        }
        self.seen = true;
        let adapted = parent[0] > 0;
        KvEvent::Stored(StoredBlocks {
            parent: (parent.len() > 1).then(|| self.name(parent)),
            hashes,
            block_tokens: self.size,
            tier: TIERS[tier],
            adapter: adapted.then(|| "ad".into()),
            adapter_id: adapted.then_some(u64::from(parent[0])),
            ..stored(None, &[], &self.tokens(&kinds))
        })
    }

    /// Its blocks have another size from now on, as the next event shows.
    fn resize(&mut self, random: &mut Random) -> KvEvent {
        let others: Vec<u32> = [2, 4, 8].into_iter().filter(|size| *size != self.size).collect();
        self.size = others[random.index(2)];
        self.held = Default::default();
        // One block alone could be the beginning of a larger one.
        let root = [[0, self.loads][random.index(2)]];
        self.store_after(&root, 2, 0, random)
    }

    /// The adapter is loaded again, as the engine's list tells or the next event.
    fn reload(&mut self, random: &mut Random) -> KvEvent {
        self.loads += 1;
        if random.index(2) == 0 {
            assert!(self.table.adapter_loaded("ad", u64::from(self.loads)));
            return self.store(random);
        }
        self.store_after(&[self.loads], 1, 0, random)
    }

    /// Copies up to three blocks, wherever they are in their prefixes, to a lower tier, saying their names only.
    fn copy(&mut self, random: &mut Random) -> KvEvent {
        let (tier, mut hashes) = (1 + random.index(2), Vec::new());
        let held: Vec<Prefix> = self.held.iter().flat_map(BTreeMap::keys).cloned().collect();
        for _ in 0..random.index(4).min(held.len()) {
            let prefix = &held[random.index(held.len())];
            hashes.push(self.name(prefix));
            *self.held[tier].entry(prefix.clone()).or_default() += 1;
        }
        KvEvent::Copied { hashes, tier: TIERS[tier] }
    }

    /// Removes a copy of up to three blocks from one tier, wherever they are in their prefixes, and one it never had.
    fn remove(&mut self, random: &mut Random) -> KvEvent {
        let tier = random.index(3);
        let mut hashes = vec![EngineHash(random.index(1_000) as u64)];
        for _ in 0..random.index(4) {
            let at = random.index(self.held[tier].len().max(1));
            if let Some(prefix) = self.held[tier].keys().nth(at).cloned() {
                hashes.push(self.name(&prefix));
                let copies = self.held[tier].get_mut(&prefix).expect("it was just found");
                *copies -= 1;
                self.held[tier].retain(|_, copies| *copies > 0);
            }
        }
        KvEvent::Removed { hashes, tier: TIERS[tier] }
    }

    fn overlap(&self, prompt: &[u32]) -> TierOverlap {
        let mut from = 0;
        let [gpu, cpu, storage] = [0, 1, 2].map(|tier| {
            let held = |len: &usize| self.held[tier].contains_key(&prompt[..=*len]);
            let run = (from + 1..prompt.len()).take_while(held).count();
            from += run;
            run
        });
        TierOverlap { gpu, cpu, storage }
    }

    /// The same by the table.
    fn found(&self, index: &Index, hasher: &Hasher, prompt: &[u32]) -> TierOverlap {
        let adapter = (prompt[0] > 0).then(|| ("ad", self.table.generations().of("ad")));
        let (root, mut chain) = (hasher.root(self.size, adapter, None), Vec::new());
        hasher.extend(root, &self.tokens(&prompt[1..]), self.size as usize, &mut chain);
        self.table.overlap(index, &chain)
    }
}

fn run(seed: u64) {
    let (index, hasher, mut random) =
        (Index::new(IndexConfig { bytes_max: 8 << 20 }), Hasher::new(5), Random::new(seed));
    // Two engines that agree on names and one that does not.
    let mut engines = [1, 1, 2].map(Engine::new);
    for step in 0..EVENTS {
        let engine = &mut engines[random.index(3)];
        let (size, seen) = (engine.size, engine.seen);
        let event = match random.index(40) {
            0 => {
                engine.held = Default::default();
                KvEvent::Cleared
            }
            1 => engine.resize(&mut random),
            2 => engine.reload(&mut random),
            3..6 => engine.copy(&mut random),
            6..25 => engine.store(&mut random),
            _ => engine.remove(&mut random),
        };
        let applied = engine.table.apply(&index, &hasher, &event);
        assert_eq!(
            (0, 0, seen && engine.size != size),
            (applied.orphaned, applied.skipped, applied.reset),
            "seed {seed} step {step}: {event:?}"
        );
        for engine in &engines {
            for load in [0, engine.loads] {
                let kinds = (0..DEPTH).map(|_| random.index(3) as u32);
                let prompt: Prefix = std::iter::once(load).chain(kinds).collect();
                let found = engine.found(&index, &hasher, &prompt);
                assert_eq!(engine.overlap(&prompt), found, "seed {seed} step {step}: {prompt:?}");
            }
            let sizes = [0, 1, 2].map(|tier| engine.held[tier].len() as u64);
            assert_eq!(sizes, engine.table.blocks(&index), "seed {seed} step {step}: {event:?}");
        }
    }
    for engine in &mut engines {
        engine.table.close(&index);
    }
    assert_eq!(0, index.stats().memberships);
}

#[test]
fn after_every_event_of_every_engine_the_index_equals_plain_sets() {
    (0..RUNS).for_each(run);
}
