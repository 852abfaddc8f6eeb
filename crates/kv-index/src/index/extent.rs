//! Extents: slices of the columns, each with the runs that share it.

use super::budget::Full;
use super::names::Place;
use super::state::Edit;

/// A slice of the columns, and the runs in it by rising offset. A free one is linked through `next`.
#[derive(Default)]
pub(super) struct Extent {
    /// Column position of offset 0, which may lie before the slice: see `skip`.
    pub(super) base: u32,
    /// First offset in use.
    pub(super) skip: u16,
    /// End of the offsets in use.
    pub(super) used: u16,
    /// End of the offsets there is room for.
    pub(super) cap: u16,
    /// Neighbours in the list of the chunk.
    pub(super) prev: u32,
    pub(super) next: u32,
    /// The first run, and the others if there are any.
    pub(super) first: u32,
    #[expect(clippy::box_collection, reason = "nearly every extent has one run: the field is one word")]
    pub(super) others: Option<Box<Vec<u32>>>,
}

impl Extent {
    pub(super) fn first_position(&self) -> usize {
        self.base.wrapping_add(u32::from(self.skip)) as usize
    }

    /// The `at`-th run.
    pub(super) fn run(&self, at: usize) -> Option<u32> {
        match at {
            0 => Some(self.first).filter(|&run| run != 0),
            at => self.others.as_ref()?.get(at - 1).copied(),
        }
    }

    fn index_of(&self, run: u32, start: impl Fn(u32) -> u32) -> usize {
        if run == self.first {
            return 0;
        }
        self.others
            .as_ref()
            .map_or(0, |others| others.partition_point(|&other| start(other) < start(run)) + 1)
    }

    /// Whether `run` is the last one.
    pub(super) fn ends_with(&self, run: u32) -> bool {
        self.others.as_ref().map_or(self.first == run, |others| others.last() == Some(&run))
    }
}

impl Edit<'_> {
    /// The run a place is in and the offset in that run, if a live block is there.
    #[inline]
    pub(super) fn resolve(&self, place: Place) -> Option<(u32, usize)> {
        let extent = &self.state.arena.extents[place.extent as usize];
        let start = |run: u32| self.state.metas[run as usize].start;
        let run = match &extent.others {
            None => extent.first,
            Some(others) => match others.partition_point(|&run| start(run) <= place.offset) {
                0 => extent.first,
                after => others[after - 1],
            },
        };
        if run == 0 {
            return None;
        }
        let offset = place.offset.checked_sub(start(run))? as usize;
        (offset < self.line(run).len()).then_some((run, offset))
    }

    /// The run before and the run after `run` in its extent.
    pub(super) fn neighbours(&self, run: u32) -> (Option<u32>, Option<u32>) {
        let extent = &self.state.arena.extents[self.state.metas[run as usize].extent as usize];
        if extent.others.is_none() {
            return (None, None);
        }
        let at = extent.index_of(run, |run| self.state.metas[run as usize].start);
        (at.checked_sub(1).and_then(|at| extent.run(at)), extent.run(at + 1))
    }

    /// Adds a run behind `left` in its extent. When it is full nothing changed.
    pub(super) fn add_to_extent(&mut self, left: u32, run: u32) -> Result<(), Full> {
        let state = &mut *self.state;
        let metas = &state.metas;
        let extent = &mut state.arena.extents[metas[left as usize].extent as usize];
        let at = extent.index_of(left, |run| metas[run as usize].start);
        if let Some(others) = &mut extent.others {
            state.budget.reserve(others, 1)?;
            others.insert(at, run);
            return Ok(());
        }
        let mut others = Vec::new();
        state.budget.take(size_of::<Vec<u32>>())?;
        if let Err(full) = state.budget.reserve(&mut others, 1) {
            state.budget.give(size_of::<Vec<u32>>());
            return Err(full);
        }
        others.push(run);
        extent.others = Some(Box::new(others));
        Ok(())
    }

    /// Takes a run out of its extent, and the extent away with its last run.
    pub(super) fn remove_from_extent(&mut self, run: u32) {
        let number = self.state.metas[run as usize].extent;
        let state = &mut *self.state;
        let metas = &state.metas;
        let extent = &mut state.arena.extents[number as usize];
        let at = extent.index_of(run, |run| metas[run as usize].start);
        if let Some(others) = &mut extent.others {
            if at == 0 {
                extent.first = others.remove(0);
            } else {
                others.remove(at - 1);
            }
            if others.is_empty() {
                state.budget.give(size_of::<Vec<u32>>() + others.capacity() * size_of::<u32>());
                extent.others = None;
            }
        } else {
            extent.first = 0;
        }
        if extent.first == 0 {
            self.free_extent(number);
        } else {
            self.fit_span(number);
        }
    }

    /// Brings the span of an extent to its first and last run.
    pub(super) fn fit_span(&mut self, number: u32) {
        let extent = &self.state.arena.extents[number as usize];
        let last = extent.others.as_ref().and_then(|others| others.last().copied()).unwrap_or(extent.first);
        let skip = self.state.metas[extent.first as usize].start as usize;
        let used = self.state.metas[last as usize].start as usize + self.line(last).own().shape.len;
        self.state.arena.set_span(number, skip, used);
    }
}
