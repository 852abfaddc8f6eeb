//! The board kept in step with the fleet, and the line of those who wait for a place on it.
//!
//! Everything here is done under one short lock; nothing here awaits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tito_fleet::{Blocks, Snapshot, State};
use tito_policy::{Board, BoardConfig, Group, Pin, Slot, SlotSpec};
use tito_types::WorkerId;
use tokio::sync::oneshot;

use crate::TargetLimit;
use crate::view::{Place, Serves, View};

/// Who stands in one line: requests that could take each other's place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    model: String,
    worker: Option<WorkerId>,
    rank: Option<u32>,
    /// Who is left out, because it could not be reached.
    excluded: Vec<WorkerId>,
}

impl Line {
    pub(crate) fn new(model: &str, pin: &Pin, excluded: &[WorkerId]) -> Self {
        let (worker, rank) = (pin.worker.clone(), pin.rank);
        Self { model: model.to_owned(), worker, rank, excluded: excluded.to_vec() }
    }
}

/// When somebody came to a line; it is kept when they come back to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival(u64);

/// The board and who waits.
pub(crate) struct Desk {
    pub(crate) board: Board,
    limit: TargetLimit,
    view: Arc<View>,
    /// How many groups there ever were: a group that serves other names is another one.
    groups_made: u32,
    /// Those whose turn has not come, first come first.
    lines: BTreeMap<Line, BTreeMap<Arrival, oneshot::Sender<()>>>,
    waiting: usize,
    arrivals: u64,
    waiting_gauge: Gauge,
}

impl Desk {
    pub(crate) fn new(config: BoardConfig, limit: TargetLimit, waiting_gauge: Gauge) -> Self {
        Self {
            board: Board::new(config),
            limit,
            view: Arc::default(),
            groups_made: 0,
            lines: BTreeMap::new(),
            waiting: 0,
            arrivals: 0,
            waiting_gauge,
        }
    }

    /// Brings the board to a snapshot. Cheap when it is the one it is at.
    pub(crate) fn view(&mut self, snapshot: &Arc<Snapshot>, blocks: &Blocks) -> Arc<View> {
        // Read first: what changes while we look is looked at again.
        let version = blocks.shape_version();
        let same = self.view.is_of(snapshot);
        if !same || self.view.version() != version {
            let mut next = self.step(snapshot);
            next.finish(version);
            self.view = Arc::new(next);
        }
        if !same {
            // Somebody may serve now what nobody could before.
            self.call_all();
        }
        Arc::clone(&self.view)
    }

    /// Whether that is the latest view.
    pub(crate) fn is_at(&self, view: &Arc<View>) -> bool {
        Arc::ptr_eq(&self.view, view)
    }

    fn step(&mut self, snapshot: &Arc<Snapshot>) -> View {
        let mut next = View::of(snapshot);
        let mut moves = Vec::new();
        for worker in &snapshot.workers {
            let (State::Ready(engine), Some(info)) = (&worker.state, &worker.info) else { continue };
            let serves = Serves::of(worker);
            let known = next.groups.get(&serves).or_else(|| self.view.groups.get(&serves));
            let group = known.copied().unwrap_or_else(|| {
                self.groups_made = self.groups_made.wrapping_add(1);
                Group(self.groups_made)
            });
            next.groups.insert(serves, group);
            for target in &worker.targets {
                let was = self.view.places.get(&target.id).map(|place| (place.slot, place.group));
                let slot = if let Some((slot, was)) = was {
                    if was != group {
                        moves.push((slot, group));
                    }
                    slot
                } else {
                    let running_max = info.identity.n_max();
                    self.board.add(SlotSpec {
                        worker: worker.id.clone(),
                        rank: target.rank,
                        group,
                        capacity_tokens: target.capacity_tokens,
                        running_max,
                        continuations_max: self.limit.of(running_max),
                    })
                };
                // Where not all is known, a session is trusted to have left its prompt.
                self.board.set_known(slot, target.complete());
                next.add(
                    target.id,
                    Place {
                        target: Arc::clone(target),
                        slot,
                        group,
                        engine: engine.clone(),
                        ranked: worker.targets.len() > 1,
                        generations: target.generations(),
                    },
                );
            }
        }
        self.board.regroup(&moves);
        let gone = self.view.places.iter().filter(|(id, _)| !next.places.contains_key(id));
        let gone: BTreeSet<Slot> = gone.map(|(_, place)| place.slot).collect();
        for slot in gone {
            self.board.remove(slot);
        }
        next
    }

    /// Whether somebody stands in that line.
    pub(crate) fn queued(&self, line: &Line) -> bool {
        self.lines.contains_key(line)
    }

    /// Stands in a line, at its end or, for who was called in vain, in the place it had; none when too many wait already.
    pub(crate) fn queue(
        &mut self,
        line: &Line,
        arrived: Option<Arrival>,
        waiting_max: usize,
    ) -> Option<(Arrival, oneshot::Receiver<()>)> {
        // Who was let in before is not turned away because others came since.
        if arrived.is_none() && self.waiting >= waiting_max {
            return None;
        }
        let arrival = arrived.unwrap_or_else(|| {
            self.arrivals += 1;
            Arrival(self.arrivals)
        });
        let (turn, called) = oneshot::channel();
        self.lines.entry(line.clone()).or_default().insert(arrival, turn);
        self.count(1);
        Some((arrival, called))
    }

    /// Leaves a line without having been called; nothing if it was.
    pub(crate) fn leave(&mut self, line: &Line, arrival: Arrival) {
        let Some(others) = self.lines.get_mut(line) else { return };
        let left = others.remove(&arrival).is_some();
        if others.is_empty() {
            self.lines.remove(line);
        }
        if left {
            self.count(-1);
        }
    }

    /// Calls the first of every line: something became free.
    pub(crate) fn call(&mut self) {
        let mut called = 0;
        self.lines.retain(|_, line| {
            called += call_first(line);
            !line.is_empty()
        });
        self.count(-called);
    }

    /// Calls the next of one line: whoever was called before took a place and may have left another, or none.
    pub(crate) fn pass_on(&mut self, line: &Line) {
        let Some(others) = self.lines.get_mut(line) else { return };
        let called = call_first(others);
        if others.is_empty() {
            self.lines.remove(line);
        }
        self.count(-called);
    }

    fn call_all(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        for turn in lines.into_values().flat_map(BTreeMap::into_values) {
            let _ = turn.send(());
        }
        self.waiting = 0;
        self.count(0);
    }

    fn count(&mut self, change: isize) {
        self.waiting = self.waiting.saturating_add_signed(change);
        self.waiting_gauge.set(i64::try_from(self.waiting).unwrap_or(i64::MAX));
    }
}

/// Calls the first of a line, who is there: those who leave take themselves out.
fn call_first(line: &mut BTreeMap<Arrival, oneshot::Sender<()>>) -> isize {
    let Some((_, turn)) = line.pop_first() else { return 0 };
    let _ = turn.send(());
    1
}
