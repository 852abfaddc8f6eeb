//! The exact selection, its rules and the ledger against a model that keeps lists and scans them.

use super::*;
use crate::random::Random;
use plain::Plain;

mod plain;

/// Choices checked in one test run.
const CHOICES: usize = 100_000;
const STEPS_PER_BOARD: usize = 100;

/// One board, the model of it, and what decides their next step.
struct Pair {
    board: Board,
    plain: Plain,
    random: Random,
    now: Duration,
}

/// Limits are often small enough to be reached.
fn random_config(random: &mut Random) -> BoardConfig {
    let colocate = |load_tokens_max| SiblingRule::Colocate { load_tokens_max };
    let siblings = [SiblingRule::Ignore, colocate(30), colocate(4096), SiblingRule::Spread][random.below(4)];
    let stickiness = [Stickiness::Off, Stickiness::Soft, Stickiness::Hard][random.below(3)];
    BoardConfig {
        siblings,
        stickiness,
        sessions_max: [2, 65_536][random.below(2)],
        session_idle: Duration::from_secs(5),
        predicted_max: [3, 65_536][random.below(2)],
        ..BoardConfig::new(PolicyKind::Kv, 0)
    }
}

fn random_spec(random: &mut Random) -> SlotSpec {
    SlotSpec {
        worker: WorkerId::new(["a", "b", "c", "d", "e", "f"][random.below(6)]),
        rank: random.below(1000) as u32,
        group: Group(random.below(2) as u32),
        capacity_tokens: 1 + random.below(400) as u64,
        running_max: 1 + random.below(8) as u32,
        continuations_max: [3, 6, u32::MAX][random.below(3)],
    }
}

/// Prompts of few blocks and few letters, so that many begin alike and some are equal.
fn random_prefix(random: &mut Random) -> Prefix {
    let letters: String = (0..random.below(5)).map(|_| ["a", "a", "b"][random.below(3)]).collect();
    prefix(&letters)
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let config = random_config(&mut random);
        let (board, plain) = (Board::new(config), Plain::new(config));
        let mut pair = Self { board, plain, random, now: Duration::ZERO };
        for _ in 0..pair.random.below(20) {
            pair.add();
        }
        pair
    }

    fn overlaps(&mut self) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        for target in &self.plain.targets {
            if self.random.below(3) == 0 {
                let [gpu_tokens, cpu_tokens, storage_tokens] =
                    [60, 20, 20].map(|most| self.random.below(most) as u32);
                overlaps.push(Overlap { slot: target.slot, gpu_tokens, cpu_tokens, storage_tokens });
            }
        }
        overlaps
    }

    /// Of a target that is there, in each of the forms a pin has.
    fn pin(&mut self) -> Option<Pin> {
        let spec = self.any(|plain| plain.targets.len()).map(|at| self.plain.targets[at].spec.clone())?;
        let (worker, rank) = (Some(spec.worker), Some(spec.rank));
        match self.random.below(24) {
            0 => Some(Pin { worker, rank }),
            1 => Some(Pin { worker, rank: None }),
            2 => Some(Pin { worker: None, rank }),
            3 => Some(Pin::default()),
            _ => None,
        }
    }

    /// A place in a list that is not empty.
    fn any(&mut self, len: fn(&Plain) -> usize) -> Option<usize> {
        let len = len(&self.plain);
        (len > 0).then(|| self.random.below(len))
    }

    fn choose(&mut self) {
        let (overlaps, pin) = (self.overlaps(), self.pin());
        let random = &mut self.random;
        let exclude: Vec<WorkerId> =
            ["a", "c"].into_iter().filter(|_| random.below(4) == 0).map(WorkerId::new).collect();
        let prefix = (random.below(4) > 0).then(|| random_prefix(random));
        let blocks = prefix.as_ref().map_or_else(|| random.below(5), |prefix| prefix.chain.len());
        let query = Query {
            groups: [&[Group(0)][..], &[Group(1)], &[Group(1), Group(0)]][random.below(3)],
            prompt_tokens: 16 * blocks as u32 + random.below(16) as u32,
            continuations: 1 + random.below(3) as u32,
            overlaps: &overlaps,
            prefix: prefix.as_ref(),
            session: (random.below(2) == 0).then(|| random.below(5) as u64),
            pin: pin.as_ref(),
            exclude: &exclude,
        };
        self.check(&query);
    }

    fn check(&mut self, query: &Query<'_>) {
        let Self { board, plain, now, .. } = self;
        plain.pass(*now);
        let decided = plain.decide(query, *now);
        let seen = board.explain(query, *now);
        for seen in &seen {
            assert_eq!(seen.predicted_tokens, plain.expected_tokens(seen.slot, query));
        }
        let cheapest =
            seen.into_iter().find(|seen| seen.unfit.is_none()).map(|seen| (seen.worker, seen.rank));
        assert_eq!(cheapest, plain.best(query).map(|(_, worker, rank)| (worker, rank)));
        let preview = board.preview(query, *now).ok();
        let choice = board.choose(query, *now);
        let chosen = choice.as_ref().ok().map(|choice| (choice.worker.clone(), choice.rank, choice.rule));
        assert_eq!(preview, chosen);
        match (decided, choice) {
            (Some(((cost, worker, rank), rule)), Ok(choice)) => {
                assert_eq!((&choice.worker, choice.rank, choice.rule), (&worker, rank, rule));
                assert!((choice.cost - cost as f64 / 1000.0).abs() < 1e-6, "{} is not {cost}", choice.cost);
                assert_eq!(choice.predicted_tokens, plain.expected_tokens(choice.slot, query));
                plain.place(query, &choice, *now);
            }
            (None, Err(_)) => {}
            (decided, choice) => panic!("the scan finds {decided:?}, the board {choice:?}"),
        }
    }

    fn add(&mut self) {
        let spec = random_spec(&mut self.random);
        let name = |spec: &SlotSpec| (spec.worker.clone(), spec.rank);
        let taken = self.plain.targets.iter().any(|target| name(&target.spec) == name(&spec));
        if !taken && self.plain.targets.len() < 24 {
            self.plain.add(self.board.add(spec.clone()), spec);
        }
    }

    /// Something other than a choice.
    fn disturb(&mut self) {
        match self.random.below(15) {
            0 => self.add(),
            1..7 => {
                if let Some(at) = self.any(|plain| plain.targets.len()) {
                    self.disturb_target(at);
                }
            }
            7..14 => {
                if let Some(at) = self.any(|plain| plain.sent.len()) {
                    self.disturb_request(self.plain.sent[at].ticket);
                }
            }
            _ => {
                let steps = [100, 500, 2000, 5000, 700_000];
                self.now += Duration::from_millis(steps[self.random.below(steps.len())]);
            }
        }
    }

    fn disturb_target(&mut self, at: usize) {
        let Self { board, plain, random, .. } = self;
        let slot = plain.targets[at].slot;
        match random.below(12) {
            0 => {
                board.remove(slot);
                plain.remove(slot);
            }
            1 | 2 => {
                let group = Group(random.below(2) as u32);
                plain.targets[at].spec.group = group;
                board.regroup(&[(slot, group)]);
            }
            3 | 4 => {
                let known = random.below(2) == 0;
                board.set_known(slot, known);
                plain.set_known(slot, known);
            }
            5 => {
                board.forget_expected(slot);
                plain.forget_expected(slot);
            }
            6 => {
                board.report(slot, None);
                plain.report(slot, None);
            }
            _ => {
                let [continuations, tokens] = [12, 500].map(|most| random.below(most) as u64);
                board.report(slot, Some(Reported { continuations, tokens }));
                plain.report(slot, Some(Reported { continuations, tokens }));
            }
        }
    }

    fn disturb_request(&mut self, ticket: Ticket) {
        let Self { board, plain, random, now } = self;
        match random.below(7) {
            0..3 => {
                board.prefill_done(ticket, *now);
                plain.prefill_done(ticket, *now);
            }
            3 => {
                board.grow(ticket, 3);
                plain.grow(ticket, 3);
            }
            _ => {
                board.end(ticket);
                board.end(ticket);
                plain.end(ticket);
            }
        }
    }
}

#[test]
fn every_choice_is_what_a_full_scan_finds_and_the_ledger_is_the_sum_of_its_tickets() {
    for seed in 0..CHOICES / STEPS_PER_BOARD {
        let mut pair = Pair::new(seed as u64);
        for _ in 0..STEPS_PER_BOARD {
            pair.choose();
            for _ in 0..pair.random.below(3) {
                pair.disturb();
            }
            for target in &pair.plain.targets {
                assert_eq!(pair.board.load(target.slot), pair.plain.load(target.slot), "seed {seed}");
            }
        }
        for sent in pair.plain.sent.drain(..) {
            pair.board.end(sent.ticket);
        }
        let Pair { board, plain, .. } = pair;
        assert!(plain.targets.iter().all(|target| board.load(target.slot) == plain.load(target.slot)));
        assert_eq!(board.stats().tickets, 0);
    }
}
