//! Who gains and who loses which blocks: the steps that `store`, `remove`, `clear` and eviction are made of.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::budget::Full;
use super::cover::Cover;
use super::names::Place;
use super::state::Edit;

/// Entries of a holder's list of runs that may be out of date beyond as many as are true.
const STALE_RUNS: usize = 32;
/// Blocks that one eviction frees at least, beside a 128th of all.
const EVICT_BLOCKS_MIN: u64 = 64;

impl Edit<'_> {
    /// The stretch of `run` that `holder` has.
    pub(super) fn range(&mut self, holder: u32, run: u32) -> (usize, usize) {
        let mut cover = std::mem::take(&mut self.state.scratch);
        self.load_cover(run, &mut cover);
        let range = cover.range(holder, self.line(run).own().shape.len);
        self.state.scratch = cover;
        range
    }

    /// Whether `holder` has the block at `place`.
    pub(super) fn has(&mut self, holder: u32, place: Place) -> bool {
        let Some((run, offset)) = self.resolve(place) else { return false };
        let (from, to) = self.range(holder, run);
        (from..to).contains(&offset)
    }

    /// Whether a holder that uses the same names as `holder` has the block at `place`.
    pub(super) fn group_has(&mut self, holder: u32, place: Place) -> bool {
        self.group_of(holder).into_iter().any(|lane| self.has(lane, place))
    }

    pub(super) fn group_of(&self, holder: u32) -> Vec<u32> {
        self.state.groups[self.state.lanes[holder as usize].group as usize].lanes.clone()
    }

    /// `holder` has the blocks `from..to` of `run` now. Returns which of them, counted from `from`, it had before. When it is
    /// full nothing changed, except that the run may be split.
    pub(super) fn gain(
        &mut self,
        holder: u32,
        run: u32,
        from: usize,
        to: usize,
    ) -> Result<Range<usize>, Full> {
        let mut cover = std::mem::take(&mut self.state.scratch);
        self.load_cover(run, &mut cover);
        let (had_from, had_to) = cover.range(holder, self.line(run).own().shape.len);
        let result = self.gain_with(holder, run, from, to, &mut cover);
        self.state.scratch = cover;
        let clamped = |at: usize| at.clamp(from, to) - from;
        result.map(|()| clamped(had_from)..clamped(had_to))
    }

    /// `holder`, which had these blocks, has one copy more of each. A copy that cannot be counted under the bound is one
    /// that its engine has unseen.
    pub(super) fn add_copies(&mut self, holder: u32, chains: impl Iterator<Item = u64>) {
        for chain in chains {
            let state = &mut *self.state;
            if state.lanes[holder as usize].copies.add(chain, &mut state.budget).is_err() {
                return self.mark_evicted(holder);
            }
        }
    }

    /// Forgets further copies of the blocks `from..to` of `run`, which `holder` loses.
    fn forget_copies(&mut self, holder: u32, run: u32, from: usize, to: usize) {
        let state = &mut *self.state;
        let copies = &mut state.lanes[holder as usize].copies;
        if copies.is_empty() {
            return;
        }
        let shape = self.shared.lines.get(run as usize).expect("runs have lines").own().shape;
        let chain = self.shared.chain.slice(shape.base, shape.len).expect("runs are in added chunks");
        for chain in chain.iter().take(to).skip(from) {
            copies.forget(chain.load(Ordering::Relaxed), &mut state.budget);
        }
    }

    fn gain_with(
        &mut self,
        holder: u32,
        run: u32,
        from: usize,
        to: usize,
        cover: &mut Cover,
    ) -> Result<(), Full> {
        let shape = self.line(run).own().shape;
        let (had_from, had_to) = cover.range(holder, shape.len);
        let had = had_from < had_to;
        if had && had_from <= from && to <= had_to {
            self.line(run).touch();
            return Ok(());
        }
        if had && had_to < from {
            let right = self.split(run, from)?;
            let gained = self.gain(holder, right, 0, to - from);
            self.trim(run, cover);
            return gained.map(|_| ());
        }
        if had && to < had_from {
            self.split(run, had_from)?;
            let gained = self.gain(holder, run, from, to);
            self.trim(run, cover);
            return gained.map(|_| ());
        }
        let (from, to) = if had { (from.min(had_from), to.max(had_to)) } else { (from, to) };
        if !had {
            self.reserve_listed_run(holder)?;
        }
        cover.set(holder, from, to, shape.len);
        self.publish(run, shape, cover)?;
        self.line(run).touch();
        if !had {
            self.list_run(holder, run);
        }
        self.count(holder, (to - from) as i64 - (had_to - had_from) as i64);
        if cover.parts.is_empty() {
            self.merge_around(run);
        } else {
            self.settle_parts(run, cover);
        }
        Ok(())
    }

    /// Room for one more run in a holder's list.
    pub(super) fn reserve_listed_run(&mut self, holder: u32) -> Result<(), Full> {
        let lane = &self.state.lanes[holder as usize];
        if lane.runs.len() > 2 * lane.covered + STALE_RUNS {
            self.tidy_runs(holder, STALE_RUNS);
        }
        let lane = &mut self.state.lanes[holder as usize];
        self.state.budget.reserve(&mut lane.runs, 1)
    }

    /// Leaves in a holder's list what is true, and gives room back that is more than twice that and `spare` entries: at the
    /// bound, others would miss it.
    pub(super) fn tidy_runs(&mut self, holder: u32, spare: usize) {
        let mut runs = std::mem::take(&mut self.state.lanes[holder as usize].runs);
        runs.sort_unstable();
        runs.dedup();
        runs.retain(|&run| self.range(holder, run) != (0, 0));
        let budget = &mut self.state.budget;
        let mut fitting = Vec::new();
        if runs.capacity() > 2 * (runs.len() + spare)
            && budget.reserve(&mut fitting, runs.len() + spare).is_ok()
        {
            fitting.append(&mut runs);
            budget.give(runs.capacity() * size_of::<u32>());
            runs = fitting;
        }
        self.state.lanes[holder as usize].runs = runs;
    }

    /// Remembers that `holder` has blocks of `run`. The caller reserved room.
    pub(super) fn list_run(&mut self, holder: u32, run: u32) {
        let lane = &mut self.state.lanes[holder as usize];
        lane.runs.push(run);
        lane.covered += 1;
    }

    pub(super) fn count(&mut self, holder: u32, blocks: i64) {
        let state = &mut *self.state;
        let own = &mut state.lanes[holder as usize].blocks;
        *own = own.checked_add_signed(blocks).expect("a holder loses what it has");
        state.memberships = state.memberships.checked_add_signed(blocks).expect("the sum of all holders");
    }

    /// `holder` loses what it has of the blocks `from..to` of `run`, which may be gone afterwards.
    pub(super) fn lose(&mut self, holder: u32, run: u32, from: usize, to: usize) {
        let mut cover = std::mem::take(&mut self.state.scratch);
        self.load_cover(run, &mut cover);
        self.lose_with(holder, run, from, to, &mut cover);
        self.state.scratch = cover;
    }

    fn lose_with(&mut self, holder: u32, run: u32, from: usize, to: usize, cover: &mut Cover) {
        let shape = self.line(run).own().shape;
        let (had_from, had_to) = cover.range(holder, shape.len);
        let (from, mut to) = (from.max(had_from), to.min(had_to));
        if from >= to {
            return;
        }
        if from > 0 && to == shape.len && cover.parts.is_empty() && cover.is_whole_only(holder) {
            self.unpair(holder, run, from, to, cover);
            self.count(holder, from as i64 - to as i64);
            self.cut_tail(run, from, None);
            return;
        }
        if had_from < from && to < had_to {
            if self.split(run, to).is_ok() {
                return self.lose(holder, run, from, to);
            }
            // No room to write a hole down: the holder loses the rest, too.
            to = had_to;
            self.mark_evicted(holder);
        }
        let keep = if from == had_from { (to, had_to) } else { (had_from, from) };
        let before = cover.clone();
        cover.set(holder, keep.0, keep.1, shape.len);
        let kept = if self.publish(run, shape, cover).is_ok() {
            keep.1 - keep.0
        } else {
            cover.set(holder, 0, 0, shape.len);
            let gone = self.publish(run, shape, cover);
            debug_assert!(gone.is_ok(), "fewer holders fit where more were");
            self.mark_evicted(holder);
            0
        };
        let lost = if kept == 0 { (had_from, had_to) } else { (from, to) };
        self.unpair(holder, run, lost.0, lost.1, &before);
        self.count(holder, kept as i64 - (had_to - had_from) as i64);
        if kept == 0 {
            self.state.lanes[holder as usize].covered -= 1;
        }
        self.trim(run, cover);
        if self.line(run).own().shape.len > 0 {
            self.merge_around(run);
        }
    }

    /// Forgets the further copies of blocks that `holder` loses, and their private names if no other holder of its engine has
    /// them. `cover` is who had them.
    fn unpair(&mut self, holder: u32, run: u32, from: usize, to: usize, cover: &Cover) {
        self.forget_copies(holder, run, from, to);
        let group = self.state.lanes[holder as usize].group as usize;
        let state = &mut *self.state;
        let group = &mut state.groups[group];
        let Some(private) = &mut group.private else { return };
        let shape = self.shared.lines.get(run as usize).expect("runs have lines").own().shape;
        let others: Vec<(usize, usize)> = group
            .lanes
            .iter()
            .filter(|&&lane| lane != holder)
            .map(|&lane| cover.range(lane, shape.len))
            .collect();
        let chain = self.shared.chain.slice(shape.base, shape.len).expect("runs are in added chunks");
        for (block, chain) in chain.iter().enumerate().take(to).skip(from) {
            if !others.iter().any(|&(from, to)| (from..to).contains(&block)) {
                private.remove(chain.load(Ordering::Relaxed));
            }
        }
    }

    pub(super) fn mark_evicted(&mut self, holder: u32) {
        let state = &mut *self.state;
        let lane = &mut state.lanes[holder as usize];
        if !lane.evicted {
            lane.evicted = true;
            state.evicted.push(holder);
        }
    }

    /// Takes `run` from all its holders and frees it.
    pub(super) fn evict_run(&mut self, run: u32) {
        let mut cover = Cover::default();
        self.load_cover(run, &mut cover);
        let len = self.line(run).own().shape.len;
        self.state.evicted_blocks += len as u64;
        for part in cover.each(len) {
            self.unpair(part.holder, run, part.from, part.to, &Cover::default());
            self.count(part.holder, part.from as i64 - part.to as i64);
            self.state.lanes[part.holder as usize].covered -= 1;
            self.mark_evicted(part.holder);
        }
        self.free_run(run);
    }

    /// Frees runs that were not used since the hand last passed. False if there is none to free.
    pub(super) fn evict(&mut self) -> bool {
        let wanted = self.state.blocks / 128 + EVICT_BLOCKS_MIN;
        let before = self.state.blocks;
        // One turn clears the marks, the second finds every run unmarked.
        for _ in 0..2 * u64::from(self.state.runs_end) {
            let run = self.state.hand;
            self.state.hand = if run + 1 >= self.state.runs_end { 1 } else { run + 1 };
            if run >= self.state.runs_end || run == self.state.pinned {
                continue;
            }
            let line = self.line(run);
            if line.own().shape.len > 0 && !line.forget_touch() {
                self.evict_run(run);
                if before - self.state.blocks >= wanted {
                    break;
                }
            }
        }
        self.state.blocks < before
    }
}
