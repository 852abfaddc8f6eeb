//! Changes of runs: who holds them, where they begin and end. Every change a reader can see is one
//! [`super::line::Line::publish`] or `reshape`.
//!
//! Order matters to readers that walk from run to run. A split makes the new run reachable before the old one gets
//! shorter; a merge makes the longer run visible before the shorter one becomes unreachable. So a block that is held
//! all the time is always found from a run that was read after the change, and a reader that finds nothing looks
//! whether the run it came from has changed.

use std::sync::atomic::Ordering;

use super::budget::Full;
use super::cover::{Cover, Part, bits};
use super::heads::tag;
use super::line::{List, Parts, Set, Shape};
use super::names::Place;
use super::state::Edit;

/// Parts of a run from which on it is split where most of them begin or end.
const PARTS_SPLIT: usize = 4;
/// Parts of a run from which on it is split in any case.
const PARTS_MAX: usize = 64;
/// Names whose entries are read together before they are removed.
const WARM: usize = 64;
/// Blocks without a holder at the start of a run that are worth a split.
const LEAD_MIN: usize = 16;

impl Edit<'_> {
    /// Copies the holders of `run`.
    pub(super) fn load_cover(&self, run: u32, cover: &mut Cover) {
        cover.clear();
        let own = self.line(run).own();
        match own.set() {
            Set::Inline(words) => {
                for (word, set) in words.into_iter().filter(|&(_, set)| set != 0) {
                    if cover.whole.len() <= word {
                        cover.whole.resize(word + 1, 0);
                    }
                    cover.whole[word] |= set;
                }
            }
            Set::Outside { list, words } => {
                cover.whole.extend((0..words).map(|word| self.extra(list.at + word)));
            }
        }
        if let Some(Parts { list, count }) = own.parts() {
            cover.parts.extend((0..count).map(|part| Part::unpack(self.extra(list.at + part))));
        }
    }

    fn extra(&self, at: usize) -> u64 {
        self.shared.extras.get(at).expect("lists are in added chunks").load(Ordering::Relaxed)
    }

    /// Makes `shape` and `cover` the state of `run`. When it is full nothing changed.
    pub(super) fn publish(&mut self, run: u32, shape: Shape, cover: &Cover) -> Result<(), Full> {
        let own = self.line(run).own();
        let old_set = match own.set() {
            Set::Inline(_) => None,
            Set::Outside { list, .. } => Some(list),
        };
        let old_parts = own.parts().map(|parts| parts.list);
        let outside = cover.whole.iter().filter(|&&word| word != 0).count() > 2;
        let new_set = if outside { Some(self.list_for(old_set, cover.whole.len())?) } else { None };
        let new_parts = if cover.parts.is_empty() {
            None
        } else {
            match self.list_for(old_parts, cover.parts.len()) {
                Ok(list) => Some(list),
                Err(full) => {
                    if let Some(list) = new_set.filter(|&list| Some(list) != old_set) {
                        self.state.extras.free(list, &self.shared.extras);
                    }
                    return Err(full);
                }
            }
        };
        let set = new_set.map_or_else(
            || Set::Inline(inline_words(&cover.whole)),
            |list| Set::Outside { list, words: cover.whole.len() },
        );
        let parts = new_parts.map(|list| Parts { list, count: cover.parts.len() });
        self.line(run).publish(shape, set, parts, || {
            let put = |at: usize, word: u64| {
                self.shared.extras.get(at).expect("lists are in added chunks").store(word, Ordering::Relaxed);
            };
            if let Some(list) = new_set {
                cover.whole.iter().enumerate().for_each(|(word, &set)| put(list.at + word, set));
            }
            if let Some(list) = new_parts {
                cover.parts.iter().enumerate().for_each(|(at, part)| put(list.at + at, part.pack()));
            }
        });
        for (old, new) in [(old_set, new_set), (old_parts, new_parts)] {
            if let Some(old) = old.filter(|&old| Some(old) != new) {
                self.state.extras.free(old, &self.shared.extras);
            }
        }
        Ok(())
    }

    /// `old` if `words` fit in it well, else a new list.
    fn list_for(&mut self, old: Option<List>, words: usize) -> Result<List, Full> {
        match old {
            Some(list) if words <= 2 << list.class => {
                if words * 4 >= 2 << list.class {
                    return Ok(list);
                }
                let smaller = self.state.extras.make(words, &self.shared.extras, &mut self.state.budget);
                Ok(smaller.unwrap_or(list))
            }
            _ => self.state.extras.make(words, &self.shared.extras, &mut self.state.budget),
        }
    }

    /// Makes a run without blocks of a new shape known to the look-up. The caller reserved room in the heads.
    pub(super) fn start_run(&mut self, run: u32, shape: Shape, cover: &Cover) -> Result<(), Full> {
        self.publish(run, shape, cover)?;
        self.shared.heads.insert(shape.head, run);
        self.state.filter.add(tag(shape.head));
        Ok(())
    }

    /// Cuts `run` in two at block `at`; returns the run that begins there. When it is full nothing changed.
    pub(super) fn split(&mut self, run: u32, at: usize) -> Result<u32, Full> {
        let shape = self.line(run).own().shape;
        let mut cover = Cover::default();
        self.load_cover(run, &mut cover);
        let (left, right) = (cover.cut(shape.len, 0, at), cover.cut(shape.len, at, shape.len));
        self.reserve_run()?;
        for part in right.each(shape.len - at) {
            let lane = &mut self.state.lanes[part.holder as usize];
            self.state.budget.reserve(&mut lane.runs, 1)?;
        }
        let number = self.new_run_number()?;
        let meta = self.state.metas[run as usize];
        let new = &mut self.state.metas[number as usize];
        (new.extent, new.start) = (meta.extent, meta.start + at as u32);
        let chain = self.shared.chain.slice(shape.base, shape.len).expect("runs are in added chunks");
        let (tail, head) = (chain[at - 1].load(Ordering::Relaxed), chain[at].load(Ordering::Relaxed));
        let new = Shape { head, tail: shape.tail, base: shape.base + at, len: shape.len - at };
        if let Err(full) = self.add_to_extent(run, number) {
            self.free_run_number(number);
            return Err(full);
        }
        if let Err(full) = self.start_run(number, new, &right) {
            self.remove_from_extent(number);
            self.free_run_number(number);
            return Err(full);
        }
        if self.line(run).own().touched {
            self.line(number).touch();
        }
        let short = Shape { tail, len: at, ..shape };
        if let Err(full) = self.publish(run, short, &left) {
            self.unpublish(number);
            return Err(full);
        }
        for part in right.each(shape.len - at) {
            let in_left = left.range(part.holder, at) != (0, 0);
            let lane = &mut self.state.lanes[part.holder as usize];
            lane.runs.push(number);
            lane.covered += usize::from(in_left);
        }
        Ok(number)
    }

    /// Room for one more run in the heads.
    pub(super) fn reserve_run(&mut self) -> Result<(), Full> {
        let state = &mut *self.state;
        self.shared.heads.reserve(state.runs, &mut state.budget)?;
        state.filter.reserve(self.shared.heads.tags(), &mut state.budget)
    }

    /// Takes a run out of the look-up, its extent and the numbers. Its blocks are not touched.
    fn unpublish(&mut self, run: u32) {
        let head = self.line(run).own().shape.head;
        self.shared.heads.remove(head, run);
        self.remove_from_extent(run);
        self.line(run).forget_touch();
        let gone = self.publish(run, Shape::default(), &Cover::default());
        debug_assert!(gone.is_ok(), "an empty cover needs no room");
        self.free_run_number(run);
    }

    /// Frees a run that nobody holds, with its blocks.
    pub(super) fn free_run(&mut self, run: u32) {
        let shape = self.line(run).own().shape;
        self.forget_blocks(run, shape, 0);
        self.unpublish(run);
    }

    /// Takes the blocks of `run` from `from` on out of the engine map: nobody holds them any more.
    fn forget_blocks(&mut self, run: u32, shape: Shape, from: usize) {
        let meta = self.state.metas[run as usize];
        let state = &mut *self.state;
        let names = &mut state.names;
        let arena = &state.arena;
        let engine = arena.engine.slice(shape.base, shape.len);
        let mut warm = 0;
        for (block, &name) in engine.iter().enumerate().skip(from) {
            if (block - from).is_multiple_of(WARM) {
                warm ^= engine[block..shape.len.min(block + WARM)]
                    .iter()
                    .fold(0, |sum, &name| sum ^ names.warm(names.spot(name)));
            }
            if name != 0 {
                let place = Place { extent: meta.extent, offset: meta.start + block as u32 };
                names.remove(name, place, |place| arena.name_at(place) == name);
            }
        }
        std::hint::black_box(warm);
        state.blocks -= (shape.len - from) as u64;
    }

    /// Frees what nobody holds at the ends of `run`.
    pub(super) fn trim(&mut self, run: u32, cover: &mut Cover) {
        if self.line(run).own().shape.len == 0 {
            return; // Freed, or merged into its neighbour, on the way here.
        }
        self.load_cover(run, cover);
        if cover.is_empty() {
            self.free_run(run);
            return;
        }
        if !cover.whole.is_empty() {
            return;
        }
        let shape = self.line(run).own().shape;
        let end = cover.parts.iter().map(|part| part.to).max().unwrap_or(0);
        let lead = cover.parts.iter().map(|part| part.from).min().unwrap_or(0);
        if end < shape.len && !self.cut_tail(run, end, Some(cover)) {
            return;
        }
        if lead >= LEAD_MIN && lead * 2 >= end && self.split(run, lead).is_ok() {
            self.free_run(run);
        }
    }

    /// Shortens `run` to `len` blocks; nobody holds the rest. `cover` is changed along; `None` if it stays. False when
    /// there was no room to write it down: then the run is gone.
    pub(super) fn cut_tail(&mut self, run: u32, len: usize, cover: Option<&mut Cover>) -> bool {
        let shape = self.line(run).own().shape;
        let last = self.shared.chain.get(shape.base + len - 1).expect("runs are in added chunks");
        let short = Shape { tail: last.load(Ordering::Relaxed), len, ..shape };
        if let Some(cover) = cover {
            *cover = cover.cut(shape.len, 0, len);
            if self.publish(run, short, cover).is_err() {
                self.evict_run(run);
                return false;
            }
        } else {
            self.line(run).reshape(short);
        }
        self.forget_blocks(run, shape, len);
        let extent = self.state.metas[run as usize].extent;
        self.fit_span(extent);
        true
    }

    /// Joins `run` with its neighbours in the extent where the same holders hold all of both.
    pub(super) fn merge_around(&mut self, run: u32) {
        let (before, after) = self.neighbours(run);
        if before.is_none() && after.is_none() {
            return;
        }
        let (mut own, mut other) = (Cover::default(), Cover::default());
        self.load_cover(run, &mut own);
        if !own.parts.is_empty() {
            return;
        }
        let mut left = run;
        for (first, second) in
            [before.map(|before| (before, run)), after.map(|after| (run, after))].into_iter().flatten()
        {
            let neighbour = if first == run { second } else { first };
            self.load_cover(neighbour, &mut other);
            let first = if first == run { left } else { first };
            if other == own && self.merge(first, second) {
                left = first;
            }
        }
    }

    fn merge(&mut self, left: u32, right: u32) -> bool {
        let (first, second) = (self.line(left).own().shape, self.line(right).own().shape);
        if first.base + first.len != second.base || right == self.state.pinned {
            return false;
        }
        let mut cover = Cover::default();
        self.load_cover(right, &mut cover);
        for (word, &set) in cover.whole.iter().enumerate() {
            for bit in bits(set) {
                self.state.lanes[word * 64 + bit as usize].covered -= 1;
            }
        }
        self.line(left).reshape(Shape { tail: second.tail, len: first.len + second.len, ..first });
        self.unpublish(right);
        let extent = self.state.metas[left as usize].extent;
        self.fit_span(extent);
        true
    }

    /// Splits a run with many parts where most of them begin or end.
    pub(super) fn settle_parts(&mut self, run: u32, cover: &Cover) {
        if cover.parts.len() < PARTS_SPLIT {
            return;
        }
        let len = self.line(run).own().shape.len;
        let mut edges: Vec<usize> = cover.parts.iter().flat_map(|part| [part.from, part.to]).collect();
        edges.retain(|&edge| edge > 0 && edge < len);
        edges.sort_unstable();
        let common = edges.chunk_by(|a, b| a == b).max_by_key(|same| same.len());
        let at = match common {
            Some(same) if same.len() >= PARTS_SPLIT / 2 => same[0],
            _ if cover.parts.len() >= PARTS_MAX => edges[edges.len() / 2],
            _ => return,
        };
        // Without room the run stays as it is, which is slower and not wrong.
        if let Ok(right) = self.split(run, at) {
            self.trim(right, &mut Cover::default());
            self.trim(run, &mut Cover::default());
        }
    }
}

/// The words that are not zero, of a set with at most two.
fn inline_words(whole: &[u64]) -> [(usize, u64); 2] {
    let mut words = whole.iter().copied().enumerate().filter(|&(_, set)| set != 0);
    [words.next().unwrap_or((0, 0)), words.next().unwrap_or((0, 0))]
}
