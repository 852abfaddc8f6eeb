//! The parts of the index: what readers share, and what only the writer has.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use super::arena::Arena;
use super::budget::{Budget, Full};
use super::chunks::{Chunks, Pages};
use super::copies::Copies;
use super::cover::Cover;
use super::extras::Extras;
use super::filter::Filter;
use super::heads::Heads;
use super::line::Line;
use super::names::{EXTENT_BITS, Names, OFFSET_BITS};
use super::private::Private;

/// Bytes of a chunk of any array, smallest and largest; in between a chunk is a 4,096th of the bound.
const CHUNK_BYTES_MIN: usize = 16 << 10;
const CHUNK_BYTES_MAX: usize = 256 << 10;
/// Blocks that 32-bit positions reach, less one chunk.
const BLOCKS_MAX: usize = u32::MAX as usize - CHUNK_BYTES_MAX;
/// Bytes per block that the engine map is laid out for.
const BLOCK_BYTES: usize = 36;

/// What readers see. Everything in it is atomic and stays where it is.
pub(super) struct Shared {
    pub(super) heads: Heads,
    /// Runs by number, from 1.
    pub(super) lines: Chunks<Line>,
    /// Chain hashes of all blocks; extents are slices of it.
    pub(super) chain: Chunks<AtomicU64>,
    pub(super) extras: Chunks<AtomicU64>,
    /// Words of 64 that holder numbers need.
    pub(super) words: AtomicUsize,
    /// The bound is near: readers mark the runs they use.
    pub(super) pressed: AtomicBool,
}

/// What the writer keeps per run. A free run is linked to the next free one through `extent`.
#[derive(Default, Clone, Copy)]
pub(super) struct Meta {
    pub(super) extent: u32,
    /// Offset of the first block in the extent.
    pub(super) start: u32,
}

/// One holder.
pub(super) struct Lane {
    pub(super) group: u32,
    /// Runs of which this holder has blocks; some entries are out of date or twice.
    pub(super) runs: Vec<u32>,
    /// Runs of which it has blocks.
    pub(super) covered: usize,
    pub(super) blocks: u64,
    /// Blocks that it has more than once.
    pub(super) copies: Copies,
    pub(super) evicted: bool,
    pub(super) live: bool,
}

impl Lane {
    /// A holder without blocks.
    pub(super) fn new(group: u32, live: bool) -> Self {
        let copies = Copies::default();
        Self { group, runs: Vec::new(), covered: 0, blocks: 0, copies, evicted: false, live }
    }
}

/// Holders of one engine: they use the same names.
#[derive(Default)]
pub(super) struct Group {
    pub(super) lanes: Vec<u32>,
    pub(super) private: Option<Private>,
}

/// What only the writer has.
pub(super) struct State {
    pub(super) budget: Budget,
    pub(super) arena: Arena,
    pub(super) names: Names,
    pub(super) filter: Filter,
    pub(super) extras: Extras,
    pub(super) metas: Pages<Meta>,
    pub(super) free_run: u32,
    /// Run numbers ever used are below this.
    pub(super) runs_end: u32,
    pub(super) runs: usize,
    pub(super) lanes: Vec<Lane>,
    pub(super) free_lanes: BTreeSet<u32>,
    pub(super) groups: Vec<Group>,
    pub(super) free_groups: Vec<u32>,
    pub(super) evicted: Vec<u32>,
    pub(super) evicted_blocks: u64,
    pub(super) memberships: u64,
    /// Distinct blocks.
    pub(super) blocks: u64,
    /// Where the eviction hand stands.
    pub(super) hand: u32,
    /// The run that a store is appending to: not to be evicted.
    pub(super) pinned: u32,
    pub(super) run_blocks_max: usize,
    pub(super) scratch: Cover,
}

/// The writer at work: the only code that changes anything.
pub(super) struct Edit<'a> {
    pub(super) shared: &'a Shared,
    pub(super) state: &'a mut State,
}

/// Lays out an empty index under a bound.
pub(super) fn build(bytes_max: usize) -> (Shared, State) {
    let chunk_bytes = (bytes_max / 4096).next_power_of_two().clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
    let words_shift = (chunk_bytes / size_of::<u64>()).trailing_zeros();
    let lines_shift = (chunk_bytes / size_of::<Line>()).trailing_zeros();
    let shared = Shared {
        heads: Heads::new(),
        lines: Chunks::new(lines_shift, (bytes_max / size_of::<Line>()).min(u32::MAX as usize / 2)),
        chain: Chunks::new(words_shift, (bytes_max / (2 * size_of::<u64>())).min(BLOCKS_MAX)),
        extras: Chunks::new(words_shift, bytes_max / size_of::<u64>()),
        words: AtomicUsize::new(0),
        pressed: AtomicBool::new(false),
    };
    let run_blocks_max = (1usize << OFFSET_BITS).min((1 << words_shift) / 4);
    let mut state = State {
        budget: Budget::new(bytes_max),
        arena: Arena::new(words_shift),
        names: Names::new(bytes_max / BLOCK_BYTES),
        filter: Filter::new(),
        extras: Extras::new(),
        metas: Pages::new(lines_shift),
        free_run: 0,
        runs_end: 1,
        runs: 0,
        lanes: Vec::new(),
        free_lanes: BTreeSet::new(),
        groups: Vec::new(),
        free_groups: Vec::new(),
        evicted: Vec::new(),
        evicted_blocks: 0,
        memberships: 0,
        blocks: 0,
        hand: 1,
        pinned: 0,
        run_blocks_max,
        scratch: Cover::default(),
    };
    let directories =
        shared.lines.directory_bytes() + shared.chain.directory_bytes() + shared.extras.directory_bytes();
    let fixed = directories + state.names.bytes() + Heads::bytes_first();
    let taken = state.budget.take(fixed + size_of::<Shared>() + size_of::<State>());
    debug_assert_eq!(taken, Ok(()), "the smallest bound covers the empty index");
    (shared, state)
}

impl Edit<'_> {
    /// A run number whose line exists; given back by [`Edit::free_run_number`] if it is not used.
    pub(super) fn new_run_number(&mut self) -> Result<u32, Full> {
        let state = &mut *self.state;
        if state.free_run != 0 {
            let run = state.free_run;
            state.free_run = state.metas[run as usize].extent;
            state.runs += 1;
            return Ok(run);
        }
        let run = state.runs_end;
        if run as usize >= state.metas.len() {
            let chunk = run as usize / self.shared.lines.chunk_items();
            if chunk >= self.shared.lines.chunks_max() {
                return Err(Full);
            }
            let lines = self.shared.lines.chunk_items() * size_of::<Line>();
            state.budget.take(lines + state.metas.page_bytes())?;
            self.shared.lines.add(chunk);
            state.metas.add();
        }
        state.runs_end += 1;
        state.runs += 1;
        Ok(run)
    }

    pub(super) fn free_run_number(&mut self, run: u32) {
        self.state.metas[run as usize] = Meta { extent: self.state.free_run, start: 0 };
        self.state.free_run = run;
        self.state.runs -= 1;
    }

    #[inline]
    pub(super) fn line(&self, run: u32) -> &Line {
        self.shared.lines.get(run as usize).expect("run numbers are given out with their lines")
    }

    /// Whether an extent with this number can exist.
    pub(super) fn extent_number_fits(number: usize) -> bool {
        number < 1 << EXTENT_BITS
    }
}
