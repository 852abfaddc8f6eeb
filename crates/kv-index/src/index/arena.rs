//! Where blocks are: two columns (chain hash, engine name) in chunks, and extents, the slices of them that runs share.
//!
//! A block is named by its extent and its offset in it, so extents can be moved: growth and compaction copy sixteen
//! bytes per block and rewrite no map entry. Space is given out from the end of one chunk; when a sixth of all given
//! space is dead, the emptiest chunk is emptied into it.

use std::sync::atomic::{Ordering, fence};

use super::budget::Full;
use super::chunks::Pages;
use super::extent::Extent;
use super::names::Place;
use super::state::Edit;

/// Extents per page of the writer's table: `1 << 9`.
const EXTENTS_SHIFT: u32 = 9;
/// Chunks compacted before an allocation gives up.
const COMPACTIONS_MAX: usize = 16;

#[derive(Default, Clone, Copy)]
struct Chunk {
    /// First of the extents in it.
    extents: u32,
    /// Blocks in use by extents.
    live: usize,
}

pub(super) struct Arena {
    pub(super) engine: Pages<u64>,
    pub(super) extents: Pages<Extent>,
    free_extent: u32,
    extents_end: u32,
    chunks: Vec<Chunk>,
    /// Chunks without an extent.
    empty: Vec<u32>,
    /// The chunk that space is given out from, and what of it is given.
    current: Option<u32>,
    top: usize,
    shift: u32,
    live: usize,
}

impl Arena {
    pub(super) fn new(shift: u32) -> Self {
        Self {
            engine: Pages::new(shift),
            extents: Pages::new(EXTENTS_SHIFT),
            free_extent: 0,
            extents_end: 1,
            chunks: Vec::new(),
            empty: Vec::new(),
            current: None,
            top: 0,
            shift,
            live: 0,
        }
    }

    fn chunk_blocks(&self) -> usize {
        1 << self.shift
    }

    /// Takes `blocks` neighbours from the current chunk.
    fn bump(&mut self, blocks: usize) -> Option<usize> {
        let current = self.current? as usize;
        if self.top + blocks > self.chunk_blocks() {
            return None;
        }
        let base = (current << self.shift) + self.top;
        self.top += blocks;
        Some(base)
    }

    /// Blocks in given space that no extent uses.
    fn dead(&self) -> usize {
        let open = self.current.map_or(0, |_| self.chunk_blocks() - self.top);
        (self.chunks.len() - self.empty.len()) * self.chunk_blocks() - open - self.live
    }

    fn chunk_of(&self, extent: u32) -> usize {
        self.extents[extent as usize].first_position() >> self.shift
    }

    fn link(&mut self, extent: u32) {
        let chunk = self.chunk_of(extent);
        let next = self.chunks[chunk].extents;
        let new = &mut self.extents[extent as usize];
        (new.prev, new.next) = (0, next);
        let blocks = (new.used - new.skip) as usize;
        if next != 0 {
            self.extents[next as usize].prev = extent;
        }
        self.chunks[chunk].extents = extent;
        self.chunks[chunk].live += blocks;
        self.live += blocks;
    }

    fn unlink(&mut self, extent: u32) {
        let chunk = self.chunk_of(extent);
        let old = &self.extents[extent as usize];
        let (prev, next, blocks) = (old.prev, old.next, (old.used - old.skip) as usize);
        if prev == 0 {
            self.chunks[chunk].extents = next;
        } else {
            self.extents[prev as usize].next = next;
        }
        if next != 0 {
            self.extents[next as usize].prev = prev;
        }
        self.chunks[chunk].live -= blocks;
        self.live -= blocks;
        if self.chunks[chunk].extents == 0 && self.current != Some(chunk as u32) {
            self.empty.push(chunk as u32);
        }
    }

    /// Changes which offsets of an extent are in use.
    pub(super) fn set_span(&mut self, extent: u32, skip: usize, used: usize) {
        let chunk = self.chunk_of(extent);
        let span = &mut self.extents[extent as usize];
        let before = (span.used - span.skip) as usize;
        (span.skip, span.used) = (skip as u16, used as u16);
        self.chunks[chunk].live = self.chunks[chunk].live + (used - skip) - before;
        self.live = self.live + (used - skip) - before;
    }

    #[inline]
    pub(super) fn position(&self, place: Place) -> usize {
        self.extents[place.extent as usize].base.wrapping_add(place.offset) as usize
    }

    #[inline]
    pub(super) fn name_at(&self, place: Place) -> u64 {
        self.engine[self.position(place)]
    }
}

impl Edit<'_> {
    /// Room for `blocks` neighbours in the columns.
    fn space(&mut self, blocks: usize) -> Result<usize, Full> {
        for _ in 0..COMPACTIONS_MAX {
            let arena = &mut self.state.arena;
            if let Some(base) = arena.bump(blocks) {
                return Ok(base);
            }
            let given = (arena.chunks.len() - arena.empty.len()) * arena.chunk_blocks();
            let dead = arena.dead();
            if dead * 6 > given && dead > arena.chunk_blocks() && self.compact() {
                continue;
            }
            if self.open_chunk() {
                continue;
            }
            if !self.compact() {
                break;
            }
        }
        Err(Full)
    }

    /// Starts giving space from a chunk without extents, if one is left beside the one kept for compaction.
    fn open_chunk(&mut self) -> bool {
        let arena = &mut self.state.arena;
        let chunk_bytes = (arena.chunk_blocks() * size_of::<u64>()) + arena.engine.page_bytes();
        if arena.empty.len() > 1 {
            self.open_empty();
            return true;
        }
        let reserve = if arena.empty.is_empty() { chunk_bytes } else { 0 };
        let promised = self.state.names.promised((arena.chunks.len() + 1) * arena.chunk_blocks());
        if self.add_chunk(reserve + promised).is_err() {
            return false;
        }
        self.open_empty();
        if reserve > 0 && self.state.budget.left() < self.state.budget.bytes() / 4 {
            // The bound is near: have the chunk for compaction while it can still be had.
            let _ = self.add_chunk(0);
        }
        true
    }

    /// Gives space from an empty chunk from now on. The current one may have lost its last extent while it was current.
    fn open_empty(&mut self) {
        let arena = &mut self.state.arena;
        let current = arena.current;
        arena.current = arena.empty.pop();
        arena.top = 0;
        if let Some(before) = current.filter(|&before| arena.chunks[before as usize].extents == 0) {
            arena.empty.insert(0, before);
        }
    }

    fn add_chunk(&mut self, promised: usize) -> Result<(), Full> {
        let state = &mut *self.state;
        let chunk = state.arena.chunks.len();
        if chunk >= self.shared.chain.chunks_max() {
            return Err(Full);
        }
        let bytes = state.arena.chunk_blocks() * size_of::<u64>() + state.arena.engine.page_bytes();
        state.budget.take_large(bytes, promised)?;
        state.budget.reserve(&mut state.arena.chunks, 1)?;
        let chunks = state.arena.chunks.capacity();
        state.budget.reserve_to(&mut state.arena.empty, chunks)?;
        self.shared.chain.add(chunk);
        state.arena.engine.add();
        state.arena.chunks.push(Chunk::default());
        state.arena.empty.push(chunk as u32);
        Ok(())
    }

    /// Empties the chunk with the fewest blocks in use. False if that gains less than an eighth of a chunk.
    fn compact(&mut self) -> bool {
        let arena = &self.state.arena;
        let in_use =
            |&(chunk, state): &(usize, &Chunk)| state.extents != 0 && arena.current != Some(chunk as u32);
        let Some((victim, chunk)) =
            arena.chunks.iter().enumerate().filter(in_use).min_by_key(|(_, chunk)| chunk.live)
        else {
            return false;
        };
        if chunk.live > arena.chunk_blocks() / 8 * 7 {
            return false;
        }
        while self.state.arena.chunks[victim].extents != 0 {
            let extent = self.state.arena.chunks[victim].extents;
            let span = &self.state.arena.extents[extent as usize];
            let blocks = (span.used - span.skip) as usize;
            if self.state.arena.bump_or_open_reserve(blocks) {
                let base = self.state.arena.bump(blocks).expect("the reserve has room for any extent");
                self.move_extent(extent, base, blocks);
            } else if self.add_chunk(0).is_err() {
                return false;
            }
        }
        true
    }

    /// Copies an extent to `base`, with room for `room` blocks from its first used offset on.
    fn move_extent(&mut self, extent: u32, base: usize, room: usize) {
        let arena = &mut self.state.arena;
        let span = &arena.extents[extent as usize];
        let (skip, blocks) = (span.skip as usize, (span.used - span.skip) as usize);
        let from = span.first_position();
        let old = self.shared.chain.slice(from, blocks).expect("extents are in added chunks");
        let new = self.shared.chain.slice(base, blocks).expect("extents are in added chunks");
        fence(Ordering::Release);
        for (new, old) in new.iter().zip(old) {
            new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for block in 0..blocks {
            arena.engine[base + block] = arena.engine[from + block];
        }
        arena.unlink(extent);
        let span = &mut arena.extents[extent as usize];
        span.base = (base as u32).wrapping_sub(skip as u32);
        span.cap = (skip + room) as u16;
        arena.link(extent);
        let base = self.state.arena.extents[extent as usize].base;
        let mut at = 0;
        while let Some(run) = self.state.arena.extents[extent as usize].run(at) {
            let start = self.state.metas[run as usize].start;
            let line = self.line(run);
            let mut shape = line.own().shape;
            shape.base = base.wrapping_add(start) as usize;
            line.reshape(shape);
            at += 1;
        }
    }

    /// A new extent with room for `blocks` from offset 0, for one run.
    pub(super) fn new_extent(&mut self, run: u32, blocks: usize) -> Result<u32, Full> {
        let state = &mut *self.state;
        if state.arena.free_extent == 0 && state.arena.extents_end as usize >= state.arena.extents.len() {
            if !Self::extent_number_fits(state.arena.extents.len() + (1 << EXTENTS_SHIFT)) {
                return Err(Full);
            }
            state.budget.take(state.arena.extents.page_bytes())?;
            state.arena.extents.add();
        }
        let base = self.space(blocks)?;
        let arena = &mut self.state.arena;
        let number = if arena.free_extent == 0 {
            arena.extents_end += 1;
            arena.extents_end - 1
        } else {
            let number = arena.free_extent;
            arena.free_extent = arena.extents[number as usize].next;
            number
        };
        arena.extents[number as usize] =
            Extent { base: base as u32, cap: blocks as u16, first: run, ..Extent::default() };
        arena.link(number);
        Ok(number)
    }

    /// Makes room up to offset `end` at the end of an extent, moving it if need be.
    pub(super) fn grow_extent(&mut self, extent: u32, end: usize) -> Result<(), Full> {
        let arena = &mut self.state.arena;
        let span = &arena.extents[extent as usize];
        let (cap, skip, used) = (span.cap as usize, span.skip as usize, span.used as usize);
        if end <= cap {
            return Ok(());
        }
        let at_top = arena.current.map(|chunk| ((chunk as usize) << arena.shift) + arena.top);
        if at_top == Some(span.base.wrapping_add(cap as u32) as usize) && arena.bump(end - cap).is_some() {
            arena.extents[extent as usize].cap = end as u16;
            return Ok(());
        }
        let max = self.state.run_blocks_max;
        let room = (end.max(used + (used - skip) / 4 + 8)).min(max.max(end)) - skip;
        let base = self.space(room)?;
        self.move_extent(extent, base, room);
        Ok(())
    }

    /// Forgets an extent without runs.
    pub(super) fn free_extent(&mut self, extent: u32) {
        let arena = &mut self.state.arena;
        arena.unlink(extent);
        arena.extents[extent as usize] = Extent { next: arena.free_extent, ..Extent::default() };
        arena.free_extent = extent;
    }
}

impl Arena {
    /// Whether the current chunk, or the one kept for compaction, which is then opened, has room.
    fn bump_or_open_reserve(&mut self, blocks: usize) -> bool {
        if self.current.is_some() && self.top + blocks <= self.chunk_blocks() {
            return true;
        }
        let Some(reserve) = self.empty.pop() else { return false };
        if let Some(current) = self.current.replace(reserve)
            && self.chunks[current as usize].extents == 0
        {
            self.empty.insert(0, current);
        }
        self.top = 0;
        true
    }
}
