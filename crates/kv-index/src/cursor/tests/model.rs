//! Random interleavings of loss, duplication, reorder, wrong numbers, damage, restarts and replays against the truth.

use std::collections::{BTreeSet, VecDeque};

use tito_test_support::random::Random;

use crate::{Action, Batch, Cursor};

const RUNS: u64 = 3_000;
const STEPS: usize = 150;

#[derive(Debug, Clone, Copy)]
enum Event {
    Store(u8),
    Remove(u8),
    Clear,
}

fn play(table: &mut BTreeSet<u8>, event: Event) {
    match event {
        Event::Store(block) => drop(table.insert(block)),
        Event::Remove(block) => drop(table.remove(&block)),
        Event::Clear => table.clear(),
    }
}

#[derive(Debug, Clone)]
struct Body {
    process: usize,
    seq: u64,
    events: Vec<Event>,
}

/// What can go wrong in one run.
#[expect(clippy::struct_excessive_bools, reason = "each is a fault that is there or not")]
#[derive(Debug, Clone, Copy)]
struct Faults {
    ring_batches: usize,
    replay: bool,
    replay_fails: bool,
    loss: bool,
    damage: bool,
    wrong_numbers: bool,
    restarts: bool,
}

enum Wire {
    Batch(Batch<Body>),
    Interrupted,
}

enum Answer {
    Batch(u64, Batch<Body>),
    End(u64),
    Fail(u64),
}

struct World {
    random: Random,
    faults: Faults,
    process: usize,
    /// The table after each batch, per process.
    truth: Vec<Vec<BTreeSet<u8>>>,
    ring: VecDeque<Batch<Body>>,
    wire: VecDeque<Wire>,
    ask: Option<(u64, u64)>,
    answers: VecDeque<Answer>,
    cursor: Cursor<Body>,
    view: BTreeSet<u8>,
    /// The last batch applied; absent since the table was voided.
    at: Option<(usize, u64)>,
    newest_process: usize,
}

impl World {
    fn new(seed: u64, faults: Faults) -> Self {
        let (cursor, actions) = Cursor::start();
        let mut world = Self {
            random: Random::new(seed),
            faults,
            process: 0,
            truth: vec![Vec::new()],
            ring: VecDeque::new(),
            wire: VecDeque::new(),
            ask: None,
            answers: VecDeque::new(),
            cursor,
            view: BTreeSet::new(),
            at: None,
            newest_process: 0,
        };
        world.perform(actions);
        world
    }

    fn publish(&mut self, faulty: bool) {
        let mut table = self.truth[self.process].last().cloned().unwrap_or_default();
        let seq = self.truth[self.process].len() as u64;
        let events: Vec<Event> = (0..=self.random.below(4))
            .map(|_| match self.random.below(24) {
                0 => Event::Clear,
                1..=13 => Event::Store(self.random.below(16) as u8),
                _ => Event::Remove(self.random.below(16) as u8),
            })
            .collect();
        for &event in &events {
            play(&mut table, event);
        }
        self.truth[self.process].push(table);
        let cleared = events.iter().any(|event| matches!(event, Event::Clear));
        let digest = (self.process as u64) << 32 | seq;
        let body = Some(Body { process: self.process, seq, events });
        let batch = Batch { seq, digest, bytes: 1, body, damaged: false, cleared };
        self.ring.push_back(batch.clone());
        while self.ring.len() > self.faults.ring_batches {
            self.ring.pop_front();
        }
        if faulty { self.send(batch) } else { self.wire.push_back(Wire::Batch(batch)) }
    }

    fn send(&mut self, mut batch: Batch<Body>) {
        let faults = self.faults;
        if faults.loss && self.random.one_in(6) {
            return;
        }
        if faults.wrong_numbers && self.random.one_in(25) {
            batch.seq = (1 << 40) + u64::from(self.random.below(1 << 20));
        } else if faults.damage && self.random.one_in(15) {
            self.damage(&mut batch);
        }
        let again = self.random.one_in(6).then(|| batch.clone());
        let reorder = self.random.one_in(6) && matches!(self.wire.back(), Some(Wire::Batch(_)));
        let at = self.wire.len() - usize::from(reorder);
        self.wire.insert(at, Wire::Batch(batch));
        self.wire.extend(again.map(Wire::Batch));
    }

    fn damage(&mut self, batch: &mut Batch<Body>) {
        batch.digest ^= 1 << 60;
        batch.damaged = true;
        let body = batch.body.as_mut().unwrap();
        let unreadable = self.random.index(body.events.len());
        body.events.drain(..=unreadable);
        batch.cleared = body.events.iter().any(|event| matches!(event, Event::Clear));
    }

    fn restart(&mut self) {
        self.process += 1;
        self.truth.push(Vec::new());
        self.ring.clear();
        if self.random.one_in(2) {
            self.wire.clear();
        }
        self.wire.push_back(Wire::Interrupted);
        // A question or an answer under way is lost, or the question reaches the next process.
        if let Some((ask, _)) = self.ask.filter(|_| self.random.one_in(2)) {
            self.ask = None;
            self.answers.push_back(Answer::Fail(ask));
        }
    }

    fn deliver(&mut self) {
        let actions = match self.wire.pop_front() {
            Some(Wire::Batch(batch)) => self.cursor.live(batch),
            Some(Wire::Interrupted) => self.cursor.resubscribed(),
            None => return,
        };
        self.perform(actions);
    }

    fn serve(&mut self) {
        // A new process takes seconds to start: what its predecessor sent has arrived before it answers anything.
        if self.wire.iter().any(|wire| matches!(wire, Wire::Interrupted)) {
            return;
        }
        let Some((ask, from)) = self.ask.take() else { return };
        if !self.faults.replay || (self.faults.replay_fails && self.random.one_in(4)) {
            return self.answers.push_back(Answer::Fail(ask));
        }
        let batches: Vec<_> = self.ring.iter().filter(|batch| batch.seq >= from).cloned().collect();
        let cut = (self.faults.replay_fails && self.random.one_in(6)).then(|| self.random.index(4));
        let sent = cut.unwrap_or(batches.len()).min(batches.len());
        self.answers.extend(batches.into_iter().take(sent).map(|batch| Answer::Batch(ask, batch)));
        self.answers.push_back(if cut.is_some() { Answer::Fail(ask) } else { Answer::End(ask) });
    }

    fn answer(&mut self) {
        let actions = match self.answers.pop_front() {
            Some(Answer::Batch(ask, batch)) => self.cursor.replayed(ask, batch),
            Some(Answer::End(ask)) => self.cursor.replay_ended(ask),
            Some(Answer::Fail(ask)) => self.cursor.replay_failed(ask),
            None => return,
        };
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<Action<Body>>) {
        for action in actions {
            match action {
                Action::Apply(body) => self.apply(&body),
                Action::Partial(_) => {
                    self.view.clear();
                    self.at = None;
                }
                Action::Unproven => {}
                Action::Complete => assert!(self.cursor.complete()),
                Action::Replay { ask, from, .. } => self.ask = Some((ask, from)),
            }
        }
        assert!(self.ask.is_none() || !self.cursor.complete(), "complete while a question is open");
        let Some((process, seq)) = self.at else { return assert!(self.view.is_empty()) };
        let truth = &self.truth[process][seq as usize];
        if self.cursor.complete() {
            assert_eq!(truth, &self.view, "complete at {process}.{seq}");
        } else {
            assert!(self.view.is_subset(truth), "partial at {process}.{seq}: {:?} of {truth:?}", self.view);
        }
    }

    fn apply(&mut self, body: &Body) {
        match self.at {
            Some((process, seq)) => {
                assert_eq!((process, seq + 1), (body.process, body.seq), "not continuous");
            }
            // A voided table may take history again, but not that of a process known to be gone.
            None => {
                assert!(body.process >= self.newest_process, "{}.{} is of the past", body.process, body.seq);
            }
        }
        for &event in &body.events {
            play(&mut self.view, event);
        }
        (self.at, self.newest_process) = (Some((body.process, body.seq)), body.process);
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            match self.random.below(20) {
                0..6 => self.publish(true),
                6..12 => self.deliver(),
                12..15 => self.serve(),
                15..19 => self.answer(),
                _ if self.faults.restarts && self.random.one_in(6) => self.restart(),
                _ => {}
            }
        }
        for _ in 0..40 {
            self.publish(false);
            for _ in 0..20 {
                self.deliver();
                self.serve();
                self.answer();
            }
        }
        let mut rounds = 0;
        while !self.wire.is_empty() || self.ask.is_some() || !self.answers.is_empty() {
            rounds += 1;
            assert!(rounds < 100_000, "asks without end");
            self.deliver();
            self.serve();
            self.answer();
        }
        let last = self.truth[self.process].len() as u64 - 1;
        assert_eq!(Some((self.process, last)), self.at, "not caught up");
        let faults = self.faults;
        if faults.replay && !faults.replay_fails && !faults.damage && faults.ring_batches > 1_000 {
            assert!(self.cursor.complete(), "everything could be replayed");
        }
    }
}

#[test]
fn whatever_happens_to_batches_the_table_is_whole_or_partial_and_true() {
    for seed in 0..RUNS {
        let bit = |n: u64| seed >> n & 1 == 1;
        let faults = Faults {
            ring_batches: if bit(0) { 10_000 } else { 1 + (seed >> 7) as usize % 12 },
            replay: !(bit(1) && bit(2)),
            replay_fails: bit(1),
            loss: bit(3),
            damage: bit(4) && !bit(0),
            wrong_numbers: bit(5),
            restarts: bit(6),
        };
        let run = || World::new(seed, faults).run();
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}: {faults:?}");
            std::panic::resume_unwind(panic);
        }
    }
}
