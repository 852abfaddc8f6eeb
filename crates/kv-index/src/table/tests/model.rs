//! Random events of several engines on one index, against plain sets of prefixes.

use std::collections::BTreeSet;

use tito_types::{EngineHash, KvEvent, StoredBlocks};

use super::{SIZE, TIERS, stored};
use crate::{Hasher, Index, IndexConfig, Table, TierOverlap};

const RUNS: u64 = 120;
const EVENTS: usize = 150;
/// Blocks of a prompt at most.
const DEPTH: usize = 6;

/// A prompt is a list of block kinds; block `k` holds the tokens `k, k, k, k`.
type Prefix = Vec<u32>;

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((word ^ (word >> 32)) % bound as u64) as usize
    }
}

struct Engine {
    table: Table,
    /// Decides its names, as the seed of an engine's hash does.
    seed: u64,
    held: [BTreeSet<Prefix>; 3],
}

impl Engine {
    fn name(&self, prefix: &[u32]) -> EngineHash {
        let fold = |name: u64, kind: &u32| {
            let name = (name ^ u64::from(kind + 11)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            name ^ (name >> 32)
        };
        EngineHash(prefix.iter().fold(self.seed, fold))
    }

    /// Stores one to three blocks after a prefix that some tier has, or at the start.
    fn store(&mut self, dice: &mut Dice) -> KvEvent {
        let known: Vec<&Prefix> = self.held.iter().flatten().filter(|prefix| prefix.len() < DEPTH).collect();
        let parent = known.get(dice.below(known.len() + 1)).map_or(Prefix::new(), |prefix| (*prefix).clone());
        let blocks = 1 + dice.below(3.min(DEPTH - parent.len()));
        let kinds: Vec<u32> = (0..blocks).map(|_| dice.below(3) as u32).collect();
        let tier = dice.below(5).saturating_sub(2);
        let whole: Prefix = parent.iter().chain(&kinds).copied().collect();
        let prefixes = (parent.len() + 1..=whole.len()).map(|len| whole[..len].to_vec());
        let hashes = prefixes.clone().map(|prefix| self.name(&prefix)).collect();
        self.held[tier].extend(prefixes);
        KvEvent::Stored(StoredBlocks {
            parent: (!parent.is_empty()).then(|| self.name(&parent)),
            hashes,
            tier: TIERS[tier],
            ..stored(None, &[], &tokens(&kinds))
        })
    }

    /// Removes up to three blocks from one tier, wherever they are in their prefixes, and one it never had.
    fn remove(&mut self, dice: &mut Dice) -> KvEvent {
        let tier = dice.below(3);
        let mut hashes = vec![EngineHash(dice.below(1_000) as u64)];
        for _ in 0..dice.below(4) {
            let at = dice.below(self.held[tier].len().max(1));
            if let Some(prefix) = self.held[tier].iter().nth(at).cloned() {
                hashes.push(self.name(&prefix));
                self.held[tier].remove(&prefix);
            }
        }
        KvEvent::Removed { hashes, tier: TIERS[tier] }
    }

    fn overlap(&self, prompt: &[u32]) -> TierOverlap {
        let mut from = 0;
        let [gpu, cpu, storage] = [0, 1, 2].map(|tier| {
            let held = |len: &usize| self.held[tier].contains(&prompt[..*len]);
            let run = (from + 1..=prompt.len()).take_while(held).count();
            from += run;
            run
        });
        TierOverlap { gpu, cpu, storage }
    }
}

fn tokens(kinds: &[u32]) -> Vec<u32> {
    kinds.iter().flat_map(|&kind| [kind; SIZE as usize]).collect()
}

fn run(seed: u64) {
    let (index, hasher, mut dice) =
        (Index::new(IndexConfig { bytes_max: 8 << 20 }), Hasher::new(5), Dice(seed));
    // Two engines that agree on names and one that does not.
    let engine = |seed| Engine { table: Table::new(SIZE), seed, held: Default::default() };
    let mut engines = [engine(1), engine(1), engine(2)];
    for step in 0..EVENTS {
        let engine = &mut engines[dice.below(3)];
        let event = match dice.below(40) {
            0 => {
                engine.held = Default::default();
                KvEvent::Cleared
            }
            1..24 => engine.store(&mut dice),
            _ => engine.remove(&mut dice),
        };
        let applied = engine.table.apply(&index, &hasher, &event);
        assert_eq!(
            (0, 0, false),
            (applied.orphaned, applied.skipped, applied.reset),
            "seed {seed} step {step}: {event:?}"
        );
        for engine in &engines {
            let prompt: Prefix = (0..DEPTH).map(|_| dice.below(3) as u32).collect();
            let mut chain = Vec::new();
            hasher.extend(hasher.root(SIZE, None, None), &tokens(&prompt), SIZE as usize, &mut chain);
            assert_eq!(
                engine.overlap(&prompt),
                engine.table.overlap(&index, &chain),
                "seed {seed} step {step}"
            );
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
