//! The sequence logic of one rank's event feed: which batch comes next, what was lost, when to ask for a replay, when
//! history is whole. Pure: the shell around it owns sockets and deadlines, and performs the [`Action`]s.
//!
//! A publisher (vLLM 0.32) numbers its batches from 0 at process start, keeps the last ones for replay, and says nothing
//! about who it is. Continuity is proven by replaying from the last batch we applied: the first one replayed must be that
//! very batch, told by its digest, or the process behind the address is another one. A restart is also seen when a number
//! that we know comes back with other content. **One restart is invisible here:** a new process whose first batch to arrive
//! carries exactly the number we expect. The shell must call [`Cursor::resubscribed`] whenever a subscription was
//! interrupted, or start a new cursor. What a process sent before it died must be handed in before its successor's answers.
//!
//! Rules of the result: batches are applied in order and never twice; [`Action::Partial`] comes before anything whose
//! continuity is not proven; a batch that may be older than one already applied is never applied; the table is not called
//! whole while a question is open.

mod batches;
mod replay;
#[cfg(test)]
mod tests;

use std::fmt;

use tito_types::KvCounters;

use batches::{Held, Known, Recent};

pub use batches::Batch;

/// Late batches in a row after which a restart is assumed: a wrong number, once believed, must not make a feed deaf.
const LATE_BATCHES_MAX: u32 = 8;
/// The number that ends a replay; no batch carries it.
const END_MARKER: u64 = u64::MAX;

/// What the shell does next, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<B> {
    /// Apply this batch to the rank's table.
    Apply(B),
    /// Forget every block of the rank; what follows is true and may be incomplete.
    Partial(Doubt),
    /// A table that was whole may have missed something; nothing is to be forgotten yet. [`Action::Complete`] follows when
    /// nothing was missed, [`Action::Partial`] when that cannot be proven.
    Unproven,
    /// From here on the table is whole.
    Complete,
    /// Ask the publisher for all batches from `from` on and answer with this `ask`, by a deadline of the shell's. It
    /// replaces an earlier ask, whose late answers are ignored.
    Replay {
        /// Names the question; never used twice by one cursor.
        ask: u64,
        /// First sequence number wanted.
        from: u64,
        /// Whether nothing is known yet, so that a first batch numbered 0 answers as well.
        all: bool,
    },
}

/// Why continuity cannot be proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The replay buffer begins at this batch and no longer reaches back to where we were.
    Forgotten(u64),
    /// Batches before this one are missing and could not be replayed.
    Missed(u64),
    /// Nothing proves that no batch was missed, or that the publisher is still the same.
    Unanswered,
    /// Another process publishes now.
    Restarted,
    /// What this batch changed is unknown.
    Unreadable(u64),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forgotten(seq) => write!(f, "the engine's replay buffer begins at batch {seq}"),
            Self::Missed(seq) => write!(f, "batches before {seq} are missing and could not be replayed"),
            Self::Unanswered => f.write_str("no replay was answered, so batches may be missing"),
            Self::Restarted => f.write_str("the engine's event publisher restarted"),
            Self::Unreadable(seq) => write!(f, "batch {seq} could not be read"),
        }
    }
}

/// What is known about the table that our actions build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    /// Nothing was said yet.
    Unknown,
    Complete,
    /// It was complete, and what was asked for since will tell whether it still is.
    Unproven,
    /// `empty` while nothing was applied since the shell was told to forget.
    Partial {
        empty: bool,
    },
}

/// The state of one feed. `B` is what a batch holds, opaque to the cursor.
#[derive(Debug)]
pub struct Cursor<B> {
    /// The last batch applied, of this publisher process.
    last: Option<u64>,
    recent: Recent,
    /// Every change since the table was empty has been applied.
    whole: bool,
    knowledge: Knowledge,
    /// An unanswered ask; live batches wait meanwhile.
    pending: Option<replay::Pending>,
    held: Held<B>,
    /// A batch from below all we remember, with no replay to say whether it is late or a new process's.
    suspect: Option<Batch<B>>,
    late_batches: u32,
    asks: u64,
    counters: KvCounters,
}

impl<B> Cursor<B> {
    /// A cursor for a subscription that was just made, and its first ask.
    pub fn start() -> (Self, Vec<Action<B>>) {
        let mut cursor = Self {
            last: None,
            recent: Recent::default(),
            whole: false,
            knowledge: Knowledge::Unknown,
            pending: None,
            held: Held::default(),
            suspect: None,
            late_batches: 0,
            asks: 0,
            counters: KvCounters::default(),
        };
        let mut actions = Vec::new();
        cursor.ask_all(&mut actions);
        (cursor, actions)
    }

    /// A batch from the subscription.
    pub fn live(&mut self, batch: Batch<B>) -> Vec<Action<B>> {
        let mut actions = Vec::new();
        if batch.seq == END_MARKER {
            self.counters.unreadable += 1;
        } else if self.pending.is_none() {
            self.accept(batch, true, &mut actions);
        } else if let Err(batch) = self.hold(batch) {
            // The replay takes longer than we can hold batches: give it up and go on with what is here.
            self.give_up(&mut actions);
            self.accept(batch, false, &mut actions);
        }
        self.settle(&mut actions);
        actions
    }

    /// Nothing is heard any more: from here on batches may be lost. [`Self::resubscribed`] comes when there is a
    /// subscription again, or when that is not waited for any longer.
    pub fn interrupted(&mut self) -> Vec<Action<B>> {
        let mut actions = Vec::new();
        self.unproven(&mut actions);
        actions
    }

    /// The subscription was interrupted: batches may be lost, and the publisher may be another.
    pub fn resubscribed(&mut self) -> Vec<Action<B>> {
        let mut actions = Vec::new();
        self.held.clear();
        self.suspect = None;
        if self.last.is_none() || self.knowledge == (Knowledge::Partial { empty: true }) {
            self.ask_all(&mut actions);
        } else {
            self.ask_proof(&mut actions);
        }
        actions
    }

    /// Counters so far; `skipped` is the shell's to fill, as are single events in `unreadable`.
    pub fn counters(&self) -> KvCounters {
        self.counters
    }

    /// Whether the table that the actions build is whole.
    pub fn complete(&self) -> bool {
        self.knowledge == Knowledge::Complete
    }

    /// A live batch whose turn has come. Without `may_ask` a doubt is not resolved by a replay.
    fn accept(&mut self, batch: Batch<B>, may_ask: bool, actions: &mut Vec<Action<B>>) {
        if let Some(suspect) = self.suspect.take() {
            if batch.seq == suspect.seq {
                self.suspect = Some(suspect);
                self.counters.duplicates += 1;
                return;
            }
            if Some(batch.seq) == suspect.seq.checked_add(1) && batch.seq != self.next() {
                self.restarted(actions);
                self.apply(suspect, actions);
            } else {
                self.counters.duplicates += 1;
            }
        }
        if batch.seq == self.next() {
            return self.apply(batch, actions);
        }
        if batch.seq > self.next() {
            return self.ahead(batch, may_ask, actions);
        }
        match self.recent.find(batch.seq, batch.digest) {
            Known::Same => self.counters.duplicates += 1,
            Known::Skipped => self.late(batch, may_ask, actions),
            Known::Other => self.restart(batch, may_ask, actions),
            Known::Older => {
                self.doubt(Doubt::Restarted, actions);
                if may_ask {
                    self.counters.restarts += 1;
                    self.held.clear();
                    self.hold_and(batch, Self::ask_all, actions);
                } else {
                    self.suspect = Some(batch);
                }
            }
        }
    }

    fn ahead(&mut self, batch: Batch<B>, may_ask: bool, actions: &mut Vec<Action<B>>) {
        if may_ask {
            self.counters.gaps += 1;
            self.hold_and(batch, Self::ask_gap, actions);
        } else {
            self.doubt(Doubt::Missed(batch.seq), actions);
            self.apply(batch, actions);
        }
    }

    /// A number that was given up once: too old to apply.
    fn late(&mut self, batch: Batch<B>, may_ask: bool, actions: &mut Vec<Action<B>>) {
        self.counters.duplicates += 1;
        self.late_batches += 1;
        if self.late_batches >= LATE_BATCHES_MAX {
            self.restart(batch, may_ask, actions);
        }
    }

    /// `batch` is the first seen of another process.
    fn restart(&mut self, batch: Batch<B>, may_ask: bool, actions: &mut Vec<Action<B>>) {
        self.restarted(actions);
        if may_ask {
            self.hold_and(batch, Self::ask_all, actions);
        } else {
            self.apply(batch, actions);
        }
    }

    /// What we knew belongs to a process that is gone.
    fn restarted(&mut self, actions: &mut Vec<Action<B>>) {
        self.counters.restarts += 1;
        self.doubt(Doubt::Restarted, actions);
        self.forget();
        self.held.clear();
    }

    fn forget(&mut self) {
        self.last = None;
        self.recent = Recent::default();
        self.whole = false;
        self.suspect = None;
        self.late_batches = 0;
    }

    fn hold(&mut self, batch: Batch<B>) -> Result<(), Batch<B>> {
        self.held.put(batch, self.asks, &mut self.counters)
    }

    /// Holds a batch and asks. One too large for the bound is dropped: the replay brings it, or the gap it leaves tells.
    fn hold_and(
        &mut self,
        batch: Batch<B>,
        ask: fn(&mut Self, &mut Vec<Action<B>>),
        actions: &mut Vec<Action<B>>,
    ) {
        drop(self.hold(batch));
        ask(self, actions);
    }

    fn next(&self) -> u64 {
        self.last.map_or(0, |last| last.saturating_add(1))
    }

    fn apply(&mut self, batch: Batch<B>, actions: &mut Vec<Action<B>>) {
        self.whole |= batch.seq == 0 && self.last.is_none();
        self.last = Some(batch.seq);
        self.recent.put(batch.seq, batch.digest);
        self.late_batches = 0;
        self.counters.batches += 1;
        if batch.damaged {
            self.counters.unreadable += 1;
            self.doubt(Doubt::Unreadable(batch.seq), actions);
        }
        self.whole |= batch.cleared;
        if let Some(body) = batch.body {
            if let Knowledge::Partial { empty } = &mut self.knowledge {
                *empty = false;
            }
            actions.push(Action::Apply(body));
        }
    }

    fn doubt(&mut self, doubt: Doubt, actions: &mut Vec<Action<B>>) {
        self.whole = false;
        if self.knowledge != (Knowledge::Partial { empty: true }) {
            self.knowledge = Knowledge::Partial { empty: true };
            actions.push(Action::Partial(doubt));
        }
    }

    fn unproven(&mut self, actions: &mut Vec<Action<B>>) {
        if self.knowledge == Knowledge::Complete {
            self.knowledge = Knowledge::Unproven;
            actions.push(Action::Unproven);
        }
    }

    /// Says that the table is whole as soon as that is proven and nothing is waited for.
    fn settle(&mut self, actions: &mut Vec<Action<B>>) {
        if self.whole && self.pending.is_none() && self.knowledge != Knowledge::Complete {
            self.knowledge = Knowledge::Complete;
            actions.push(Action::Complete);
        }
    }
}
