//! New blocks: they extend a run that only their holder has, or start one.

use std::sync::atomic::{Ordering, fence};

use super::Block;
use super::budget::Full;
use super::cover::Cover;
use super::line::Shape;
use super::names::{Place, Spot};
use super::state::Edit;
use super::store::{UNNAMED, name_of};

/// Names whose entries are read together before they are written.
const WARM: usize = 64;

impl Edit<'_> {
    /// New blocks of a holder that uses the shared names. Returns where they begin and how many were added.
    pub(super) fn add(
        &mut self,
        holder: u32,
        at: Option<Place>,
        blocks: &[Block],
    ) -> Result<(Place, usize), Full> {
        let name = name_of(blocks[0].engine);
        self.state.names.reserve(name, &mut self.state.budget)?;
        let arena = &self.state.arena;
        let twin = self.state.names.find(name, |place| arena.name_at(place) == name).is_some();
        if twin {
            self.lose_elsewhere(holder, name, None);
        }
        let (run, place, room) = self.open(holder, at, blocks)?;
        let count = self.fill(place, &blocks[..room]);
        self.close(holder, run, place, &blocks[..count])?;
        Ok((place, count))
    }

    /// New blocks of a holder with names of its own: the shared names do not know them.
    pub(super) fn add_private(
        &mut self,
        holder: u32,
        at: Option<Place>,
        blocks: &[Block],
    ) -> Result<(Place, usize), Full> {
        self.reserve_pairs(holder, blocks.len())?;
        let entry = self.private_mut(holder).and_then(|private| private.of_name(name_of(blocks[0].engine)));
        if let Some(entry) = entry {
            self.lose_in_group(holder, entry.place);
            self.private_mut(holder).expect("the caller looked").remove(entry.chain);
        }
        let (run, place, room) = self.open(holder, at, blocks)?;
        let private = self.private_mut(holder).expect("the caller looked");
        let free = |block: &&Block| private.of_name(name_of(block.engine)).is_none();
        let count = blocks[..room].iter().take_while(free).count();
        let position = self.state.arena.position(place);
        self.put_chain(position, &blocks[..count]);
        self.state.arena.engine.slice_mut(position, count).fill(UNNAMED);
        self.close(holder, run, place, &blocks[..count])?;
        self.pair(holder, place, &blocks[..count]);
        Ok((place, count))
    }

    /// A place for new blocks after `at`: the run they extend, or 0 and an extent for a new run; and how many fit.
    fn open(
        &mut self,
        holder: u32,
        at: Option<Place>,
        blocks: &[Block],
    ) -> Result<(u32, Place, usize), Full> {
        if let Some(at) = at
            && let Some((run, offset)) = self.resolve(at)
            && self.extendable(holder, run, offset)
        {
            let extent = &self.state.arena.extents[at.extent as usize];
            let used = extent.used as usize;
            let room = blocks.len().min(self.state.run_blocks_max - used);
            self.grow_extent(at.extent, used + room)?;
            return Ok((run, Place { extent: at.extent, offset: used as u32 }, room));
        }
        self.reserve_run()?;
        self.reserve_listed_run(holder)?;
        let run = self.new_run_number()?;
        let room = blocks.len().min(self.state.run_blocks_max);
        match self.new_extent(run, room) {
            Ok(extent) => {
                self.state.metas[run as usize].extent = extent;
                self.state.metas[run as usize].start = 0;
                Ok((run, Place { extent, offset: 0 }, room))
            }
            Err(full) => {
                self.free_run_number(run);
                Err(full)
            }
        }
    }

    /// Whether blocks after the one at `offset` of `run` can be added to it: it is the last one of its extent, nobody
    /// else has it, and the limit of its length is not reached.
    fn extendable(&mut self, holder: u32, run: u32, offset: usize) -> bool {
        let len = self.line(run).own().shape.len;
        let extent = &self.state.arena.extents[self.state.metas[run as usize].extent as usize];
        if offset + 1 != len || !extent.ends_with(run) || extent.used as usize >= self.state.run_blocks_max {
            return false;
        }
        if self.line(run).own().is_whole_only(holder) {
            return true;
        }
        let mut cover = std::mem::take(&mut self.state.scratch);
        self.load_cover(run, &mut cover);
        let extendable =
            cover.is_whole_only(holder) || (cover.whole.is_empty() && cover.range(holder, len).1 == len);
        self.state.scratch = cover;
        extendable
    }

    fn put_chain(&mut self, position: usize, blocks: &[Block]) {
        let chain = self.shared.chain.slice(position, blocks.len()).expect("extents are in added chunks");
        // Who had this space before has changed its sequence; that is seen before what is written now.
        fence(Ordering::Release);
        for (chain, block) in chain.iter().zip(blocks) {
            chain.store(block.chain, Ordering::Relaxed);
        }
    }

    /// Writes blocks to the columns and the engine map, up to the first whose name another place has or whose shard is
    /// full; at least one, for which the caller reserved room.
    fn fill(&mut self, place: Place, blocks: &[Block]) -> usize {
        let position = self.state.arena.position(place);
        let state = &mut *self.state;
        let mut count = 0;
        let mut spots = [Spot::default(); WARM];
        'all: for batch in blocks.chunks(WARM) {
            let engine = state.arena.engine.slice_mut(position + count, batch.len());
            for ((engine, block), spot) in engine.iter_mut().zip(batch).zip(&mut spots) {
                *engine = name_of(block.engine);
                *spot = state.names.spot(*engine);
            }
            // A loop of its own, and a short one: so more reads are under way at once.
            std::hint::black_box(
                spots.iter().take(batch.len()).fold(0, |sum, &spot| sum ^ state.names.warm(spot)),
            );
            for (block, &spot) in batch.iter().zip(&spots) {
                let name = name_of(block.engine);
                let place = Place { offset: place.offset + count as u32, ..place };
                let arena = &state.arena;
                let is = |other| arena.name_at(other) == name;
                match state.names.insert_new(spot, place, is, &mut state.budget) {
                    Ok(()) => count += 1,
                    Err(_) if count > 0 => break 'all,
                    Err(_) => {
                        state.names.insert_twin(name, place);
                        count += 1;
                    }
                }
            }
        }
        self.put_chain(position, &blocks[..count]);
        count
    }

    /// Makes the blocks written at `place` a part of the world.
    fn close(&mut self, holder: u32, run: u32, place: Place, blocks: &[Block]) -> Result<(), Full> {
        let count = blocks.len();
        let before = self.line(run).own().shape;
        let tail = blocks[count - 1].chain;
        self.state.blocks += count as u64;
        let extent = &self.state.arena.extents[place.extent as usize];
        let (skip, used) = (extent.skip as usize, place.offset as usize + count);
        if before.len == 0 {
            let base = self.state.arena.position(place);
            let mut cover = Cover::default();
            cover.set(holder, 0, count, count);
            self.start_run(run, Shape { head: blocks[0].chain, tail, base, len: count }, &cover)?;
            self.list_run(holder, run);
            self.state.arena.set_span(place.extent, 0, used);
            self.count(holder, count as i64);
            return Ok(());
        }
        self.line(run).touch();
        let shape = Shape { tail, len: before.len + count, ..before };
        if self.line(run).own().is_whole_only(holder) {
            self.line(run).reshape(shape);
        } else {
            let mut cover = std::mem::take(&mut self.state.scratch);
            self.load_cover(run, &mut cover);
            let (from, _) = cover.range(holder, before.len);
            cover.set(holder, from, shape.len, shape.len);
            let published = self.publish(run, shape, &cover);
            debug_assert!(published.is_ok(), "as many parts as before");
            self.state.scratch = cover;
        }
        self.state.arena.set_span(place.extent, skip, used);
        self.count(holder, count as i64);
        Ok(())
    }
}
