//! Asking for replays, and what their answers prove.

use super::batches::{Batch, Known};
use super::{Action, Cursor, Doubt, END_MARKER};

/// Replays after which a held batch beyond all they brought is taken for one with a wrong number.
const ASKS_PER_BATCH_MAX: u64 = 2;

/// A replay that was asked for.
#[derive(Debug)]
pub(super) struct Pending {
    ask: u64,
    want: Want,
    /// Whether any answer came.
    answered: bool,
    /// Whether an answer told something new.
    advanced: bool,
    /// Whether the publisher is known to be the one that sent our last batch.
    same: bool,
}

/// What a replay is to prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    /// History from the publisher's start, into an empty table; what we remembered is void with the first answer.
    All,
    /// What lies between our last batch and one that is held.
    Gap,
    /// That the publisher is still the one that sent our last batch, and all it sent since.
    Proof,
}

impl<B> Cursor<B> {
    /// A batch of the replay named `ask`.
    pub fn replayed(&mut self, ask: u64, batch: Batch<B>) -> Vec<Action<B>> {
        let mut actions = Vec::new();
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.ask == ask) else {
            return actions;
        };
        if batch.seq == END_MARKER {
            self.counters.unreadable += 1;
            return actions;
        }
        let first = !pending.answered;
        pending.answered = true;
        let (fresh, same) = (first && pending.want == Want::All, pending.same);
        if fresh {
            self.forget();
        }
        if (fresh && batch.seq > 0) || (!same && self.last.is_some_and(|last| batch.seq > last)) {
            self.doubt(Doubt::Forgotten(batch.seq), &mut actions);
            self.advance(batch, &mut actions);
        } else {
            self.replayed_next(batch, &mut actions);
        }
        actions
    }

    /// The replay named `ask` has been sent whole.
    pub fn replay_ended(&mut self, ask: u64) -> Vec<Action<B>> {
        let mut actions = Vec::new();
        let Some(pending) = self.pending.take_if(|pending| pending.ask == ask) else { return actions };
        if pending.answered {
            self.drain(true, &mut actions);
        } else if pending.want != Want::All && self.last.is_some() {
            // Our last batch is unknown there: a younger process, still behind our number.
            self.restarted(&mut actions);
            self.ask_all(&mut actions);
        } else if self.held.first().is_some_and(|(seq, asks)| seq > 0 && asks < ask) {
            // Something was published before we asked, and the replay knows nothing of it.
            self.drain(false, &mut actions);
        } else {
            // Nothing was ever published.
            self.forget();
            self.whole = true;
            self.drain(true, &mut actions);
        }
        self.settle(&mut actions);
        actions
    }

    /// The replay named `ask` will not be answered (any more): there is no endpoint for it, or the deadline passed. A later
    /// gap asks again.
    pub fn replay_failed(&mut self, ask: u64) -> Vec<Action<B>> {
        let mut actions = Vec::new();
        if self.pending.as_ref().is_some_and(|pending| pending.ask == ask) {
            self.give_up(&mut actions);
            self.settle(&mut actions);
        }
        actions
    }

    pub(super) fn give_up(&mut self, actions: &mut Vec<Action<B>>) {
        let Some(pending) = self.pending.take() else { return };
        let proven = match pending.want {
            Want::All => {
                pending.answered
                    || (self.last.is_none() && self.held.first().is_some_and(|(seq, _)| seq == 0))
            }
            // The held batch says it: either numbers go on without a gap after all, or they do not.
            Want::Gap => true,
            Want::Proof => pending.answered,
        };
        if !proven {
            self.doubt(Doubt::Unanswered, actions);
        }
        self.drain(false, actions);
    }

    pub(super) fn ask_all(&mut self, actions: &mut Vec<Action<B>>) {
        self.ask(Want::All, 0, actions);
    }

    pub(super) fn ask_gap(&mut self, actions: &mut Vec<Action<B>>) {
        self.ask(Want::Gap, self.last.unwrap_or(0), actions);
    }

    pub(super) fn ask_proof(&mut self, actions: &mut Vec<Action<B>>) {
        self.ask(Want::Proof, self.last.unwrap_or(0), actions);
    }

    fn ask(&mut self, want: Want, from: u64, actions: &mut Vec<Action<B>>) {
        self.unproven(actions);
        self.asks += 1;
        self.counters.replays += 1;
        let same = want == Want::All;
        self.pending = Some(Pending { ask: self.asks, want, answered: false, advanced: false, same });
        actions.push(Action::Replay { ask: self.asks, from, all: want == Want::All });
    }

    /// An answer that follows what is known, or repeats it.
    fn replayed_next(&mut self, batch: Batch<B>, actions: &mut Vec<Action<B>>) {
        let next = self.next();
        if batch.seq == next {
            return self.advance(batch, actions);
        }
        if batch.seq < next {
            match self.recent.find(batch.seq, batch.digest) {
                Known::Other => {
                    self.restarted(actions);
                    self.ask_all(actions);
                }
                Known::Same if Some(batch.seq) == self.last => self.mark(|pending| pending.same = true),
                Known::Same | Known::Skipped | Known::Older => {}
            }
            return;
        }
        // The publisher's socket drops answers that are not read fast enough: ask again from where we are.
        self.counters.gaps += 1;
        if self.pending.as_ref().is_some_and(|pending| pending.advanced) {
            self.ask_gap(actions);
        } else {
            self.doubt(Doubt::Missed(batch.seq), actions);
            self.advance(batch, actions);
        }
    }

    /// Applies a replayed batch; what follows it comes from the same publisher.
    fn advance(&mut self, batch: Batch<B>, actions: &mut Vec<Action<B>>) {
        self.mark(|pending| (pending.advanced, pending.same) = (true, true));
        self.apply(batch, actions);
    }

    fn mark(&mut self, change: impl FnOnce(&mut Pending)) {
        if let Some(pending) = &mut self.pending {
            change(pending);
        }
    }

    /// Takes the held batches in order, until one of them makes us ask again. `answered` when a replay was sent whole: what
    /// came before it was asked for is then either in it or no longer true.
    fn drain(&mut self, answered: bool, actions: &mut Vec<Action<B>>) {
        while self.pending.is_none()
            && let Some((seq, asks)) = self.held.first()
        {
            let missing = answered && seq > self.next();
            if missing && self.asks < asks + ASKS_PER_BATCH_MAX {
                self.ask_gap(actions);
                continue;
            }
            let Some(batch) = self.held.take_first() else { return };
            if missing {
                self.counters.unreadable += 1;
            } else if answered && seq < self.next() && asks < self.asks {
                self.counters.duplicates += 1;
            } else {
                self.accept(batch, answered, actions);
            }
        }
    }
}
