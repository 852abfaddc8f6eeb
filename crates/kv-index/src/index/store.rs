//! Blocks arrive: known ones only change who holds a run, new ones extend a run or start one.

use std::sync::atomic::Ordering;

use super::budget::Full;
use super::heads::{Probe, tag};
use super::names::Place;
use super::private::{Entry, Private};
use super::state::Edit;
use super::{Block, UnknownParent};

/// Evictions in a row for one step of a store, before the rest of it is left out: about a quarter of all blocks.
const EVICTIONS_MAX: usize = 32;

/// Stands in the engine column for a block no holder of the shared names has named yet.
pub(super) const UNNAMED: u64 = 0;

/// What stands for a name, since zero says that there is none.
pub(super) fn name_of(engine: u64) -> u64 {
    if engine == UNNAMED { 0x6A09_E667_F3BC_C909 } else { engine }
}

impl Edit<'_> {
    pub(super) fn store(
        &mut self,
        holder: u32,
        parent: Option<u64>,
        blocks: &[Block],
    ) -> Result<(), UnknownParent> {
        let mut at = match parent {
            Some(parent) => Some(self.parent(holder, name_of(parent)).ok_or(UnknownParent)?),
            None => None,
        };
        let mut rest = blocks;
        let mut evictions = 0;
        while !rest.is_empty() {
            if let Ok(done) = self.step(holder, &mut at, rest) {
                rest = &rest[done..];
                evictions = 0;
                continue;
            }
            let pinned = at.and_then(|at| self.resolve(at)).map_or(0, |(run, _)| run);
            if !self.make_room(holder, pinned, &mut evictions) {
                break;
            }
        }
        self.settle_room();
        Ok(())
    }

    /// `holder` has what its engine has by these names. Returns how many are names of nothing that it has. Blocks that do
    /// not fit under the bound are left out, and the holder is marked as evicted.
    pub(super) fn copy(&mut self, holder: u32, engines: &[u64]) -> usize {
        let mut unknown = 0;
        for &engine in engines {
            let (mut known, mut evictions) = (false, 0);
            while let Some(place) = self.held_place(holder, name_of(engine)) {
                known = true;
                let (run, offset) = self.resolve(place).expect("a block that is held is in a run");
                if let Ok(had) = self.gain(holder, run, offset, offset + 1) {
                    let chain = self.chain_at(place).expect("the block is in a run");
                    self.add_copies(holder, had.map(|_| chain));
                    break;
                }
                if !self.make_room(holder, run, &mut evictions) {
                    break;
                }
            }
            unknown += usize::from(!known);
        }
        self.settle_room();
        unknown
    }

    /// Frees room for a step that did not fit, but not the run `pinned`. False when that cannot help; then the holder is
    /// marked as evicted.
    fn make_room(&mut self, holder: u32, pinned: u32, evictions: &mut usize) -> bool {
        self.state.pinned = pinned;
        *evictions += 1;
        if *evictions == EVICTIONS_MAX / 2 {
            // It may be the lists of many holders that take the room.
            (0..self.state.lanes.len()).for_each(|holder| self.tidy_runs(holder as u32, 0));
        }
        let made = *evictions <= EVICTIONS_MAX && self.evict();
        if !made {
            self.mark_evicted(holder);
        }
        made
    }

    /// The last step is done.
    fn settle_room(&mut self) {
        self.state.pinned = 0;
        let budget = &self.state.budget;
        // From half full on: eviction must find the marks of what is in use.
        let pressed = budget.left() < budget.bytes();
        if self.shared.pressed.load(Ordering::Relaxed) != pressed {
            self.shared.pressed.store(pressed, Ordering::Relaxed);
        }
    }

    /// Stores the first of `rest`, as many as are alike; returns how many. `at` is the block before them.
    fn step(&mut self, holder: u32, at: &mut Option<Place>, rest: &[Block]) -> Result<usize, Full> {
        let private = self.private_mut(holder).is_some();
        let (place, done) = if let Some((place, known)) = self.known(*at, rest) {
            let known = &rest[..known];
            let done = if private {
                self.join_private(holder, place, known)
            } else {
                self.join(holder, place, known)
            }?;
            (place, done)
        } else {
            let new = &rest[..self.unknown(rest)];
            if private { self.add_private(holder, *at, new) } else { self.add(holder, *at, new) }?
        };
        if done > 0 {
            *at = Some(Place { extent: place.extent, offset: place.offset + done as u32 - 1 });
        }
        Ok(done)
    }

    pub(super) fn private_mut(&mut self, holder: u32) -> Option<&mut Private> {
        self.state.groups[self.state.lanes[holder as usize].group as usize].private.as_mut()
    }

    /// Where the first of `rest` is and how many from there on are known in the same run.
    fn known(&self, at: Option<Place>, rest: &[Block]) -> Option<(Place, usize)> {
        if let Some(at) = at
            && let Some((run, offset)) = self.resolve(at)
        {
            let known = self.common(run, offset + 1, rest);
            if known > 0 {
                return Some((Place { offset: at.offset + 1, ..at }, known));
            }
        }
        if !self.state.filter.may_have(tag(rest[0].chain)) {
            return None;
        }
        let run = self.run_of_head(rest[0].chain)?;
        let meta = self.state.metas[run as usize];
        Some((Place { extent: meta.extent, offset: meta.start }, self.common(run, 0, rest)))
    }

    #[inline]
    fn run_of_head(&self, chain: u64) -> Option<u32> {
        match self.shared.heads.probe(chain, |run| self.line(run).starts_with(chain).then_some(run)) {
            Probe::Hit(run) => Some(run),
            Probe::Absent | Probe::Moved => None,
        }
    }

    /// How many blocks of `run` from `from` on are the first of `rest`.
    fn common(&self, run: u32, from: usize, rest: &[Block]) -> usize {
        let shape = self.line(run).own().shape;
        let Some(len) = shape.len.checked_sub(from).filter(|&len| len > 0) else { return 0 };
        let chain = self.shared.chain.slice(shape.base + from, len).expect("runs are in added chunks");
        let both = len.min(rest.len());
        if chain[both - 1].load(Ordering::Relaxed) == rest[both - 1].chain {
            return both; // Equal chain hashes have equal prefixes.
        }
        chain
            .iter()
            .zip(rest)
            .take_while(|(chain, block)| chain.load(Ordering::Relaxed) == block.chain)
            .count()
    }

    /// How many of `rest`, whose first block is new, are new before one that a run starts with.
    fn unknown(&self, rest: &[Block]) -> usize {
        let rest = &rest[..rest.len().min(self.state.run_blocks_max)];
        let filter = &self.state.filter;
        let new =
            |block: &&Block| !filter.may_have(tag(block.chain)) || self.run_of_head(block.chain).is_none();
        1 + rest[1..].iter().take_while(new).count()
    }

    /// `holder`, which uses the shared names, has known blocks. Returns how many were dealt with.
    fn join(&mut self, holder: u32, place: Place, blocks: &[Block]) -> Result<usize, Full> {
        let (run, offset) = self.resolve(place).expect("the blocks were just found");
        let engine = self.state.arena.engine.slice(self.state.arena.position(place), blocks.len());
        let agreed =
            engine.iter().zip(blocks).take_while(|(name, block)| **name == name_of(block.engine)).count();
        if agreed > 0 && self.state.names.twice() == 0 {
            let had = self.gain(holder, run, offset, offset + agreed)?;
            self.add_copies(holder, blocks[had].iter().map(|block| block.chain));
            return Ok(agreed);
        }
        let name = name_of(blocks[0].engine);
        if engine[0] == UNNAMED {
            self.state.names.reserve(name, &mut self.state.budget)?;
        } else if engine[0] != name {
            self.privatise(holder)?;
            return Ok(0);
        }
        let had = self.gain(holder, run, offset, offset + 1)?;
        self.add_copies(holder, blocks[had].iter().map(|block| block.chain));
        self.lose_elsewhere(holder, name, Some(place));
        let position = self.state.arena.position(place);
        if self.state.arena.engine[position] == UNNAMED {
            self.state.arena.engine[position] = name;
            self.insert_name(name, place);
        }
        Ok(1)
    }

    /// Adds a place of a name, be it the first or a further one. The caller reserved room.
    fn insert_name(&mut self, name: u64, place: Place) {
        let state = &mut *self.state;
        let arena = &state.arena;
        let is = |other: Place| other != place && arena.name_at(other) == name;
        if state.names.insert_new(state.names.spot(name), place, is, &mut state.budget).is_err() {
            state.names.insert_twin(name, place);
        }
    }

    /// The engine of `holder` calls another block by `name` now: it lost those it called so before.
    pub(super) fn lose_elsewhere(&mut self, holder: u32, name: u64, except: Option<Place>) {
        loop {
            let mut places = Vec::new();
            self.state.names.find(name, |place| {
                if self.state.arena.name_at(place) == name && Some(place) != except {
                    places.push(place);
                }
                false
            });
            let Some(place) = places.into_iter().find(|&place| self.group_has(holder, place)) else { return };
            self.lose_in_group(holder, place);
        }
    }

    pub(super) fn lose_in_group(&mut self, holder: u32, place: Place) {
        for lane in self.group_of(holder) {
            if let Some((run, offset)) = self.resolve(place) {
                self.lose(lane, run, offset, offset + 1);
            }
        }
    }

    /// `holder`, whose engine has names of its own, has known blocks. Returns how many were dealt with.
    fn join_private(&mut self, holder: u32, place: Place, blocks: &[Block]) -> Result<usize, Full> {
        let (run, offset) = self.resolve(place).expect("the blocks were just found");
        self.reserve_pairs(holder, blocks.len())?;
        let private = self.private_mut(holder).expect("the caller looked");
        let free = |block: &&Block| {
            private.of_name(name_of(block.engine)).is_none_or(|entry| entry.chain == block.chain)
        };
        let count = blocks.iter().take_while(free).count().max(1);
        let had = self.gain(holder, run, offset, offset + count)?;
        let private = self.private_mut(holder).expect("the caller looked");
        let called_so = |block: &&Block| {
            private.of_chain(block.chain).is_some_and(|entry| entry.name == name_of(block.engine))
        };
        let again: Vec<u64> = blocks[had].iter().filter(called_so).map(|block| block.chain).collect();
        self.add_copies(holder, again.into_iter());
        self.pair(holder, place, &blocks[..count]);
        Ok(count)
    }

    pub(super) fn reserve_pairs(&mut self, holder: u32, more: usize) -> Result<(), Full> {
        let state = &mut *self.state;
        let group = state.lanes[holder as usize].group as usize;
        state.groups[group].private.as_mut().expect("the caller looked").reserve(more, &mut state.budget)
    }

    /// Makes the names of `blocks`, at `place` and after, the ones that the engine of `holder` calls them by.
    pub(super) fn pair(&mut self, holder: u32, place: Place, blocks: &[Block]) {
        for (offset, block) in (place.offset..).zip(blocks) {
            let name = name_of(block.engine);
            let private = self.private_mut(holder).expect("the caller looked");
            match private.of_name(name) {
                Some(entry) if entry.chain == block.chain => continue,
                Some(entry) => self.lose_in_group(holder, entry.place),
                None => {}
            }
            let private = self.private_mut(holder).expect("the caller looked");
            if private.of_chain(block.chain).is_some() {
                self.forget_name(holder, block.chain);
            }
            let private = self.private_mut(holder).expect("the caller looked");
            private.insert(Entry { name, chain: block.chain, place: Place { offset, ..place } });
        }
    }

    /// The engine of `holder` calls a block by another name now. Copies go by their name, so those of the old one are not
    /// held any more.
    fn forget_name(&mut self, holder: u32, chain: u64) {
        for lane in self.group_of(holder) {
            let state = &mut *self.state;
            state.lanes[lane as usize].copies.forget(chain, &mut state.budget);
        }
        self.private_mut(holder).expect("the caller looked").remove(chain);
    }

    /// The engine of `holder` disagrees with the shared names: it gets a table of its own.
    fn privatise(&mut self, holder: u32) -> Result<(), Full> {
        let lanes = self.group_of(holder);
        let blocks: u64 = lanes.iter().map(|&lane| self.state.lanes[lane as usize].blocks).sum();
        let mut private = Private::new();
        private.reserve(blocks as usize, &mut self.state.budget)?;
        for lane in lanes {
            for run in self.state.lanes[lane as usize].runs.clone() {
                let (from, to) = self.range(lane, run);
                let meta = self.state.metas[run as usize];
                for offset in meta.start + from as u32..meta.start + to as u32 {
                    let place = Place { extent: meta.extent, offset };
                    let position = self.state.arena.position(place);
                    let chain = self.shared.chain.get(position).expect("runs are in added chunks");
                    let chain = chain.load(Ordering::Relaxed);
                    if private.of_chain(chain).is_none() {
                        private.insert(Entry { name: self.state.arena.name_at(place), chain, place });
                    }
                }
            }
        }
        let group = self.state.lanes[holder as usize].group as usize;
        self.state.groups[group].private = Some(private);
        Ok(())
    }
}
