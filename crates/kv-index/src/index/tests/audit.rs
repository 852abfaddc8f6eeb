//! Everything that must hold between the parts of an index at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use crate::index::Index;
use crate::index::cover::Cover;
use crate::index::names::Place;
use crate::index::state::Edit;

impl Index {
    /// Panics if the parts contradict each other.
    pub(super) fn audit(&self) {
        let mut state = self.lock();
        let mut edit = Edit { shared: &self.shared, state: &mut state };
        let runs: Vec<u32> =
            (1..edit.state.runs_end).filter(|&run| edit.line(run).own().shape.len > 0).collect();
        assert_eq!(runs.len(), edit.state.runs, "live runs");
        let mut chains = BTreeSet::new();
        let mut held: BTreeMap<u32, Held> = BTreeMap::new();
        for &run in &runs {
            audit_run(&mut edit, run, &mut chains, &mut held);
        }
        assert_eq!(chains.len() as u64, edit.state.blocks, "distinct blocks");
        for (number, lane) in edit.state.lanes.iter().enumerate() {
            let Held { chains, runs } = held.remove(&(number as u32)).unwrap_or_default();
            let blocks = chains.len() as u64;
            assert_eq!((lane.blocks, lane.covered), (blocks, runs.len()), "counts of holder {number}");
            assert!(lane.copies.chains().all(|chain| chains.contains(&chain)), "copies of holder {number}");
            let listed: BTreeSet<u32> = lane.runs.iter().copied().collect();
            assert!(runs.is_subset(&listed), "the list of holder {number} names its runs");
        }
        let bytes = edit.state.budget.bytes();
        assert!(bytes > 0);
    }
}

/// What one holder has.
#[derive(Default)]
struct Held {
    chains: BTreeSet<u64>,
    runs: BTreeSet<u32>,
}

fn audit_run(edit: &mut Edit<'_>, run: u32, chains: &mut BTreeSet<u64>, held: &mut BTreeMap<u32, Held>) {
    let shape = edit.line(run).own().shape;
    let meta = edit.state.metas[run as usize];
    let chain: Vec<u64> = edit
        .shared
        .chain
        .slice(shape.base, shape.len)
        .expect("in a chunk")
        .iter()
        .map(|chain| chain.load(Ordering::Relaxed))
        .collect();
    assert_eq!((chain[0], chain[shape.len - 1]), (shape.head, shape.tail), "ends of run {run}");
    for (offset, &hash) in chain.iter().enumerate() {
        assert!(chains.insert(hash), "block {hash:x} is in two runs");
        let place = Place { extent: meta.extent, offset: meta.start + offset as u32 };
        assert_eq!(edit.resolve(place), Some((run, offset)), "the place resolves");
        let name = edit.state.arena.name_at(place);
        if name != 0 {
            let found = edit.state.names.find(name, |other| other == place);
            assert_eq!(found, Some(place), "the engine map knows the block");
        }
    }
    let mut cover = Cover::default();
    edit.load_cover(run, &mut cover);
    assert!(!cover.is_empty(), "run {run} has a holder");
    for part in cover.each(shape.len) {
        assert!(part.from < part.to && part.to <= shape.len, "{part:?} of {} blocks", shape.len);
        let held = held.entry(part.holder).or_default();
        held.chains.extend(&chain[part.from..part.to]);
        assert!(held.runs.insert(run), "one stretch per holder");
    }
    let end = cover.each(shape.len).map(|part| part.to).max();
    assert_eq!(end, Some(shape.len), "the last block of run {run} has a holder");
}
