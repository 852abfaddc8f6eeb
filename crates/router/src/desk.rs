//! The board kept in step with the fleet, and the line of those who wait for a place on it.
//!
//! Everything here is done under one short lock; nothing here awaits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tito_fleet::{Blocks, Snapshot, State};
use tito_policy::{Board, BoardConfig, Group, Limits, Pin, Slot, SlotSpec};
use tokio::sync::oneshot;

use crate::TargetLimit;
use crate::view::{Place, Serves, View};

/// Who stands in one line: requests that could take each other's place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) model: String,
    pub(crate) worker: Option<tito_types::WorkerId>,
    pub(crate) rank: Option<u32>,
}

impl Line {
    pub(crate) fn new(model: &str, pin: &Pin) -> Self {
        Self { model: model.to_owned(), worker: pin.worker.clone(), rank: pin.rank }
    }
}

/// The board and who waits.
pub(crate) struct Desk {
    pub(crate) board: Board,
    limit: TargetLimit,
    view: Arc<View>,
    /// How many groups there ever were: a group that serves other names is another one.
    groups_made: u32,
    /// Those whose turn has not come, first come first.
    lines: BTreeMap<Line, VecDeque<oneshot::Sender<()>>>,
    waiting: usize,
}

impl Desk {
    pub(crate) fn new(config: BoardConfig, limit: TargetLimit) -> Self {
        Self {
            board: Board::new(config),
            limit,
            view: Arc::default(),
            groups_made: 0,
            lines: BTreeMap::new(),
            waiting: 0,
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
                    let continuations_max = self.limit.of(running_max);
                    self.board.add(SlotSpec {
                        worker: worker.id.clone(),
                        rank: target.rank,
                        group,
                        capacity_tokens: target.capacity_tokens,
                        running_max,
                        limits: Limits { continuations_max, prefill_tokens_max: u64::MAX },
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

    /// Stands in a line, at its end or, for who was called in vain, at its head; none when too many wait already.
    pub(crate) fn queue(
        &mut self,
        line: &Line,
        at_head: bool,
        waiting_max: usize,
    ) -> Option<oneshot::Receiver<()>> {
        if self.waiting >= waiting_max {
            self.sweep();
        }
        if self.waiting >= waiting_max {
            return None;
        }
        let (turn, called) = oneshot::channel();
        let others = self.lines.entry(line.clone()).or_default();
        if at_head {
            others.push_front(turn);
        } else {
            others.push_back(turn);
        }
        self.waiting += 1;
        Some(called)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Calls the first of every line: something became free.
    pub(crate) fn call(&mut self) {
        let waiting = &mut self.waiting;
        self.lines.retain(|_, line| {
            call_first(line, waiting);
            !line.is_empty()
        });
    }

    /// Calls the next of one line: whoever was called before took a place and may have left another, or none.
    pub(crate) fn pass_on(&mut self, line: &Line) {
        let Some(others) = self.lines.get_mut(line) else { return };
        call_first(others, &mut self.waiting);
        if others.is_empty() {
            self.lines.remove(line);
        }
    }

    /// Forgets those who left.
    fn sweep(&mut self) {
        self.lines.retain(|_, line| {
            line.retain(|turn| !turn.is_closed());
            !line.is_empty()
        });
        self.waiting = self.lines.values().map(VecDeque::len).sum();
    }

    fn call_all(&mut self) {
        self.waiting = 0;
        for turn in std::mem::take(&mut self.lines).into_values().flatten() {
            let _ = turn.send(());
        }
    }
}

/// Calls the first who is still there.
fn call_first(line: &mut VecDeque<oneshot::Sender<()>>, waiting: &mut usize) {
    while let Some(turn) = line.pop_front() {
        *waiting = waiting.saturating_sub(1);
        if turn.send(()).is_ok() {
            return;
        }
    }
}
