//! A million random operations against the reference. Few tokens and few names, so that everything meets everything.

use super::reference::Reference;
use super::{ROOMY, Random, chain_after, found, name_by};
use crate::index::{Block, Holder, Index, IndexConfig};

/// How one run is dealt.
#[derive(Clone, Copy)]
struct Deal {
    seed: u64,
    operations: usize,
    /// Holders, some of them of one engine.
    holders: usize,
    /// Engines that have names of their own, in percent.
    own_names: u32,
    /// Names that are drawn from a few and mean nothing, in percent.
    loose_names: u32,
    /// Blocks per store, at most.
    blocks_max: usize,
    /// Memberships from which on more is removed than stored.
    memberships: u64,
}

struct World {
    deal: Deal,
    random: Random,
    index: Index,
    reference: Reference,
    holders: Vec<Holder>,
    engines: Vec<usize>,
    /// Paths that were stored, to be asked for.
    paths: Vec<Vec<u64>>,
}

impl World {
    fn new(deal: Deal, config: IndexConfig) -> Self {
        let mut random = Random::new(deal.seed);
        let index = Index::new(config);
        let (mut reference, mut holders, mut engines) = (Reference::default(), Vec::new(), Vec::new());
        for at in 0..deal.holders {
            let sibling = (at > 0 && random.percent(30)).then(|| random.index(at));
            let engine = sibling.map_or(at, |sibling| engines[sibling]);
            holders.push(sibling.map_or_else(
                || index.add_holder(),
                |sibling: usize| index.add_holder_beside(holders[sibling]),
            ));
            engines.push(engine);
            reference.add_holder(engine);
        }
        Self { deal, random, index, reference, holders, engines, paths: vec![Vec::new()] }
    }

    fn name(&mut self, holder: usize, chain: u64) -> u64 {
        if self.random.percent(self.deal.loose_names) {
            return self.random.next() % 40;
        }
        let engine = self.engines[holder];
        let own = Random::new(self.deal.seed ^ engine as u64).percent(self.deal.own_names);
        name_by(if own { engine as u64 + 1 } else { 0 }, chain)
    }

    /// A path that was stored, cut somewhere and continued by chance.
    fn path(&mut self, more: usize) -> (Vec<u64>, usize) {
        let at = self.random.index(self.paths.len());
        let mut path = self.paths[at].clone();
        path.truncate(self.random.index(path.len() + 1));
        let known = path.len();
        let mut parent = path.last().copied().unwrap_or(0);
        for _ in 0..=self.random.index(more) {
            parent =
                chain_after(parent, if self.random.percent(80) { 0 } else { 1 + self.random.next() % 2 });
            path.push(parent);
        }
        (path, known)
    }

    fn store(&mut self, holder: usize) {
        let (path, known) = self.path(self.deal.blocks_max);
        let from = if self.random.percent(30) { 0 } else { known };
        let mut parent = None;
        if from > 0 {
            let above = path[from - 1];
            let held = self.reference.blocks(holder).contains(&above);
            let name = if held { self.reference.name_of(holder, above) } else { self.name(holder, above) };
            let said = self.index.chain_of(self.holders[holder], name);
            if let Some(expected) = self.reference.chain_of(holder, name) {
                assert_eq!(said, Some(expected), "a name the engine uses is known");
            }
            if said != Some(above) {
                if said.is_none() {
                    let refused = self.index.store(self.holders[holder], Some(name), &[]);
                    assert!(refused.is_err(), "no chain, no child");
                }
                return;
            }
            parent = Some(name);
        }
        let blocks: Vec<Block> =
            path[from..].iter().map(|&chain| Block { chain, engine: self.name(holder, chain) }).collect();
        let stored = self.index.store(self.holders[holder], parent, &blocks);
        assert_eq!(stored, Ok(()), "the parent was known");
        self.reference.store(holder, &blocks);
        let slot = self.random.index(64);
        if slot < self.paths.len() {
            self.paths[slot] = path;
        } else {
            self.paths.push(path);
        }
    }

    fn remove(&mut self, holder: usize) {
        let kind = self.random.index(4);
        let held = self.reference.blocks(holder);
        let mut names: Vec<u64> = if kind == 0 {
            let skip = self.random.index(held.len() + 1);
            held.iter()
                .skip(skip)
                .step_by(3)
                .take(4)
                .map(|&chain| self.reference.name_of(holder, chain))
                .collect()
        } else {
            let at = self.random.index(self.paths.len());
            let path = &self.paths[at];
            let (from, count) = (self.random.index(path.len() + 1), 1 + self.random.index(16));
            let from = if kind == 2 { 0 } else { from };
            path[from..]
                .iter()
                .take(count)
                .filter(|chain| held.contains(chain))
                .map(|&chain| self.reference.name_of(holder, chain))
                .collect()
        };
        if kind == 1 {
            names.reverse();
        }
        names.push(self.random.next() % 40);
        self.index.remove(self.holders[holder], &names);
        self.reference.remove(holder, &names);
    }

    fn operate(&mut self) {
        let holder = self.random.index(self.deal.holders);
        let full = self.reference.memberships() > self.deal.memberships;
        match self.random.index(1000) {
            0..=2 => {
                self.index.clear(self.holders[holder]);
                self.reference.clear(holder);
            }
            3..450 if !full => self.store(holder),
            _ => {
                if self.random.percent(50) && !full {
                    self.store(holder);
                } else {
                    self.remove(holder);
                }
            }
        }
    }

    fn compare(&mut self) {
        let (path, _) = self.path(4);
        let expected: Vec<_> = self
            .reference
            .find(&path)
            .into_iter()
            .map(|(holder, blocks)| (self.holders[holder], blocks))
            .collect();
        assert_eq!(found(&self.index, &path), expected, "seed {}", self.deal.seed);
        if !self.random.percent(25) {
            return;
        }
        let holder = self.random.index(self.deal.holders);
        let from = self.random.index(path.len());
        assert_eq!(
            self.index.run_from(self.holders[holder], &path, from),
            self.reference.run_from(holder, &path, from),
            "seed {}",
            self.deal.seed
        );
    }
}

fn check(deal: Deal) {
    let mut world = World::new(deal, ROOMY);
    for operation in 0..deal.operations {
        world.operate();
        world.compare();
        if operation % 5000 == 0 {
            world.index.audit();
            assert_eq!(world.index.stats().memberships, world.reference.memberships(), "seed {}", deal.seed);
        }
    }
    for &holder in &world.holders.clone() {
        world.index.clear(holder);
    }
    world.index.audit();
    let stats = world.index.stats();
    assert_eq!((stats.blocks, stats.memberships, stats.runs, stats.domains), (0, 0, 0, 1), "all was freed");
}

const PLAIN: Deal = Deal {
    seed: 1,
    operations: 300_000,
    holders: 5,
    own_names: 0,
    loose_names: 0,
    blocks_max: 12,
    memberships: 400,
};

#[test]
fn holders_that_agree_are_served_exactly() {
    check(PLAIN);
}

#[test]
fn hundreds_of_holders_are_served_exactly() {
    check(Deal { seed: 2, holders: 200, operations: 40_000, memberships: 3000, blocks_max: 20, ..PLAIN });
}

#[test]
fn long_runs_with_holes_are_served_exactly() {
    check(Deal { seed: 3, holders: 3, operations: 60_000, memberships: 2500, blocks_max: 60, ..PLAIN });
}

#[test]
fn engines_with_names_of_their_own_are_served_exactly() {
    check(Deal { seed: 4, own_names: 60, ..PLAIN });
}

#[test]
fn names_that_move_between_blocks_are_served_exactly() {
    check(Deal { seed: 5, own_names: 30, loose_names: 20, ..PLAIN });
}
