//! Blocks leave: by name, or all of a holder's at once.

use std::sync::atomic::Ordering;

use super::budget::Full;
use super::names::Place;
use super::state::{Edit, Group, Lane};
use super::store::name_of;

impl Edit<'_> {
    /// The place that the engine of `holder` calls `name`: for the parent of a block, which `holder` need not have.
    pub(super) fn parent(&mut self, holder: u32, name: u64) -> Option<Place> {
        if let Some(private) = self.private_mut(holder) {
            return private.of_name(name).map(|entry| entry.place);
        }
        let arena = &self.state.arena;
        if self.state.names.twice() == 0 {
            return self.state.names.find(name, |place| arena.name_at(place) == name);
        }
        let mut places = self.places(name);
        if places.len() == 1 {
            places.pop()
        } else {
            places.into_iter().find(|&place| self.group_has(holder, place))
        }
    }

    fn places(&self, name: u64) -> Vec<Place> {
        let mut places = Vec::new();
        self.state.names.find(name, |place| {
            if self.state.arena.name_at(place) == name {
                places.push(place);
            }
            false
        });
        places
    }

    /// The chain hash of the block that the engine of `holder` calls `name`.
    pub(super) fn chain_of(&mut self, holder: u32, name: u64) -> Option<u64> {
        let place = self.parent(holder, name)?;
        self.chain_at(place)
    }

    /// The same, if the engine of `holder` has the block.
    pub(super) fn held_chain_of(&mut self, holder: u32, name: u64) -> Option<u64> {
        let place = self.held_place(holder, name)?;
        self.chain_at(place)
    }

    /// The place of a block that the engine of `holder` has and calls `name`.
    pub(super) fn held_place(&mut self, holder: u32, name: u64) -> Option<Place> {
        if self.private_mut(holder).is_some() {
            return self.parent(holder, name);
        }
        self.places(name).into_iter().find(|&place| self.group_has(holder, place))
    }

    pub(super) fn chain_at(&self, place: Place) -> Option<u64> {
        let position = self.state.arena.position(place);
        Some(self.shared.chain.get(position)?.load(Ordering::Relaxed))
    }

    /// The place of a block that `holder` may have, by the name its engine uses.
    fn own_place(&mut self, holder: u32, name: u64) -> Option<Place> {
        if self.state.names.twice() == 0 || self.private_mut(holder).is_some() {
            return self.parent(holder, name);
        }
        self.places(name).into_iter().find(|&place| self.has(holder, place))
    }

    pub(super) fn remove(&mut self, holder: u32, engines: &[u64]) {
        // With the shared names, and none of them given twice, neighbours are recognised in the engine column.
        let plain = self.state.names.twice() == 0 && self.private_mut(holder).is_none();
        let mut rest = engines;
        while let Some((&engine, others)) = rest.split_first() {
            rest = others;
            let Some(place) = self.own_place(holder, name_of(engine)) else { continue };
            let Some((run, offset)) = self.resolve(place) else { continue };
            let (mut from, mut to) = (offset, offset + 1);
            if plain {
                let shape = self.line(run).own().shape;
                let column = self.state.arena.engine.slice(shape.base, shape.len);
                let before =
                    column[..from].iter().rev().zip(rest).take_while(|(own, name)| **own == name_of(**name));
                from -= before.count();
                if from < offset {
                    rest = &rest[offset - from..];
                } else {
                    let after =
                        column[to..].iter().zip(rest).take_while(|(own, name)| **own == name_of(**name));
                    to += after.count();
                    rest = &rest[to - offset - 1..];
                }
            }
            self.lose_copy(holder, run, from, to);
        }
    }

    /// `holder` has one copy less of each of the blocks `from..to` of `run`, and loses those of which it was the last.
    fn lose_copy(&mut self, holder: u32, run: u32, from: usize, to: usize) {
        if self.state.lanes[holder as usize].copies.is_empty() {
            return self.lose(holder, run, from, to);
        }
        let shape = self.line(run).own().shape;
        let meta = self.state.metas[run as usize];
        let chain = self.shared.chain.slice(shape.base, shape.len).expect("runs are in added chunks");
        let mut gone = Vec::new();
        let state = &mut *self.state;
        for (block, chain) in chain.iter().enumerate().take(to).skip(from) {
            let copies = &mut state.lanes[holder as usize].copies;
            if !copies.take(chain.load(Ordering::Relaxed), &mut state.budget) {
                gone.push(Place { extent: meta.extent, offset: meta.start + block as u32 });
            }
        }
        // From the last one on: what is lost may change where the blocks after it are, never those before it.
        for stretch in gone.chunk_by(|one, next| one.offset + 1 == next.offset).rev() {
            if let Some((run, offset)) = self.resolve(stretch[0]) {
                self.lose(holder, run, offset, offset + stretch.len());
            }
        }
    }

    pub(super) fn clear(&mut self, holder: u32) {
        let mut runs = std::mem::take(&mut self.state.lanes[holder as usize].runs);
        runs.sort_unstable();
        runs.dedup();
        for &run in &runs {
            self.lose(holder, run, 0, usize::MAX);
        }
        debug_assert_eq!(
            self.state.lanes[holder as usize].blocks, 0,
            "the list named every run of the holder"
        );
        let state = &mut *self.state;
        state.budget.give(runs.capacity() * size_of::<u32>());
        let group = &mut state.groups[state.lanes[holder as usize].group as usize];
        if group.lanes.iter().all(|&lane| state.lanes[lane as usize].blocks == 0)
            && let Some(private) = group.private.take()
        {
            // An empty engine may agree with the others again.
            state.budget.give(private.bytes());
        }
    }

    /// A new holder, of the engine of `beside` or of one of its own.
    pub(super) fn add_holder(&mut self, beside: Option<u32>) -> u32 {
        while self.reserve_holder().is_err() && self.evict() {}
        let state = &mut *self.state;
        let group = match (beside, state.free_groups.pop()) {
            (Some(beside), free) => {
                state.free_groups.extend(free);
                state.lanes[beside as usize].group
            }
            (None, Some(free)) => free,
            (None, None) => {
                state.groups.push(Group::default());
                state.groups.len() as u32 - 1
            }
        };
        let lane = Lane::new(group, true);
        let holder = if let Some(holder) = state.free_lanes.pop_first() {
            state.lanes[holder as usize] = lane;
            holder
        } else {
            state.lanes.push(lane);
            state.lanes.len() as u32 - 1
        };
        state.groups[group as usize].lanes.push(holder);
        self.shared.words.store(self.state.lanes.len().div_ceil(64), Ordering::Release);
        holder
    }

    fn reserve_holder(&mut self) -> Result<(), Full> {
        let state = &mut *self.state;
        state.budget.reserve(&mut state.lanes, 1)?;
        state.budget.reserve(&mut state.groups, 1)?;
        let lanes = state.lanes.capacity();
        state.budget.reserve_to(&mut state.free_groups, lanes)?;
        state.budget.reserve_to(&mut state.evicted, lanes)
    }

    pub(super) fn remove_holder(&mut self, holder: u32) {
        self.clear(holder);
        let state = &mut *self.state;
        let lane = &mut state.lanes[holder as usize];
        state.budget.give(lane.runs.capacity() * size_of::<u32>());
        let group = lane.group;
        *lane = Lane::new(group, false);
        state.evicted.retain(|&other| other != holder);
        state.free_lanes.insert(holder);
        let lanes = &mut state.groups[group as usize].lanes;
        lanes.retain(|&other| other != holder);
        if lanes.is_empty() {
            state.free_groups.push(group);
        }
    }
}
