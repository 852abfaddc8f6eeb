//! The exact selection and the ledger against a model that keeps lists and scans them.

use super::*;
use crate::random::Random;

/// Choices checked in one test run.
const CHOICES: usize = 100_000;
const STEPS_PER_BOARD: usize = 100;

#[derive(Clone)]
struct Sent {
    ticket: Ticket,
    slot: Slot,
    continuations: u64,
    prompt: u64,
    uncached_milli: u64,
    output: u64,
    prefilled: bool,
}

struct Target {
    slot: Slot,
    spec: SlotSpec,
    served: u64,
    /// What each report since the last silence had beyond the ledger of its moment.
    excesses: Vec<Others>,
}

/// What the board should know, in the plainest form.
#[derive(Default)]
struct Plain {
    targets: Vec<Target>,
    sent: Vec<Sent>,
}

impl Plain {
    fn on(&self, slot: Slot) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(move |sent| sent.slot == slot)
    }

    fn load(&self, slot: Slot) -> Load {
        let sum = |part: fn(&Sent) -> u64| self.on(slot).map(part).sum::<u64>();
        Load {
            requests: sum(|_| 1),
            continuations: sum(|sent| sent.continuations),
            prefill_tokens: sum(|sent| if sent.prefilled { 0 } else { sent.uncached_milli }).div_ceil(1000),
            decode_tokens: sum(|sent| if sent.prefilled { sent.prompt + sent.output } else { 0 }),
            others: self.target(slot).and_then(Self::others),
        }
    }

    fn target(&self, slot: Slot) -> Option<&Target> {
        self.targets.iter().find(|target| target.slot == slot)
    }

    /// The lesser of the last two reports, in each part.
    fn others(target: &Target) -> Option<Others> {
        match target.excesses.as_slice() {
            [] => None,
            [_] => Some(Others::default()),
            [.., before, now] => Some(Others {
                continuations: now.continuations.min(before.continuations),
                tokens: now.tokens.min(before.tokens),
            }),
        }
    }

    /// Thousandths of a token, after the formula in the documentation of `Weights`.
    fn cost(&self, target: &Target, query: &Query<'_>) -> u64 {
        let sum = |part: fn(&Sent) -> u64| self.on(target.slot).map(part).sum::<u64>();
        let others = Self::others(target).unwrap_or_default();
        let held = sum(|sent| sent.prompt + sent.output) + others.tokens;
        let over = held.saturating_sub(target.spec.capacity_tokens / 10 * 9);
        let there = sum(|sent| sent.continuations) + others.continuations;
        let standing = there.saturating_sub(u64::from(target.spec.running_max));
        let waiting = sum(|sent| if sent.prefilled { 0 } else { sent.uncached_milli });
        waiting
            + 50 * held
            + 1000 * over
            + 1_024_000 * standing
            + 5 * target.served
            + Self::uncached_milli(target, query)
    }

    fn uncached_milli(target: &Target, query: &Query<'_>) -> u64 {
        let overlap = query.overlaps.iter().find(|overlap| overlap.slot == target.slot);
        let mut tiers = Vec::new();
        if let Some(overlap) = overlap {
            tiers.extend(std::iter::repeat_n(1000, overlap.gpu_tokens as usize));
            tiers.extend(std::iter::repeat_n(750, overlap.cpu_tokens as usize));
            tiers.extend(std::iter::repeat_n(250, overlap.storage_tokens as usize));
        }
        let limit = query.prompt_tokens.saturating_sub(1) as usize;
        u64::from(query.prompt_tokens) * 1000 - tiers.iter().take(limit).sum::<u64>()
    }

    fn fits(&self, target: &Target, query: &Query<'_>) -> bool {
        let load = self.load(target.slot);
        let room = load.requests == 0
            || load.continuations + u64::from(query.continuations)
                <= u64::from(target.spec.continuations_max);
        let pinned = query.pin.is_none_or(|pin| {
            pin.worker.as_ref().is_none_or(|worker| *worker == target.spec.worker)
                && pin.rank.is_none_or(|rank| rank == target.spec.rank)
        });
        room && pinned
            && query.groups.contains(&target.spec.group)
            && !query.exclude.contains(&target.spec.worker)
    }

    /// Cost, worker, rank.
    fn best(&self, query: &Query<'_>) -> Option<(u64, WorkerId, u32)> {
        let fitting = self.targets.iter().filter(|target| self.fits(target, query));
        let rated =
            fitting.map(|target| (self.cost(target, query), target.spec.worker.clone(), target.spec.rank));
        rated.min()
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

fn overlaps(plain: &Plain, random: &mut Random) -> Vec<Overlap> {
    let mut overlaps = Vec::new();
    for target in &plain.targets {
        if random.below(3) == 0 {
            let [gpu_tokens, cpu_tokens, storage_tokens] = [60, 20, 20].map(|most| random.below(most) as u32);
            overlaps.push(Overlap { slot: target.slot, gpu_tokens, cpu_tokens, storage_tokens });
        }
    }
    overlaps
}

fn choose(board: &mut Board, plain: &mut Plain, random: &mut Random) {
    let overlaps = overlaps(plain, random);
    let spec = (!plain.targets.is_empty() && random.below(8) == 0)
        .then(|| plain.targets[random.below(plain.targets.len())].spec.clone());
    let worker_too = random.below(2) == 0;
    let pin = spec.map(|spec| Pin { worker: worker_too.then_some(spec.worker), rank: Some(spec.rank) });
    let exclude: Vec<WorkerId> =
        ["a", "c"].into_iter().filter(|_| random.below(4) == 0).map(WorkerId::new).collect();
    let groups: &[Group] = [&[Group(0)][..], &[Group(1)], &[Group(1), Group(0)]][random.below(3)];
    let query = Query {
        groups,
        prompt_tokens: random.below(80) as u32,
        continuations: 1 + random.below(3) as u32,
        overlaps: &overlaps,
        prefix: None,
        session: None,
        pin: pin.as_ref(),
        exclude: &exclude,
    };
    let best = plain.best(&query);
    let seen = board.explain(&query, Duration::ZERO).into_iter().find(|seen| seen.unfit.is_none());
    let choice = board.choose(&query, Duration::ZERO);
    match (best, choice) {
        (Some((cost, worker, rank)), Ok(choice)) => {
            assert_eq!((&choice.worker, choice.rank), (&worker, rank));
            assert!((choice.cost - cost as f64 / 1000.0).abs() < 1e-6, "{} is not {cost}", choice.cost);
            assert_eq!(seen.map(|seen| seen.slot), Some(choice.slot));
            let target = plain.targets.iter_mut().find(|target| target.slot == choice.slot).unwrap();
            target.served += Plain::uncached_milli(target, &query).div_ceil(1000);
            plain.sent.push(Sent {
                ticket: choice.ticket,
                slot: choice.slot,
                continuations: u64::from(query.continuations),
                prompt: u64::from(query.prompt_tokens),
                uncached_milli: Plain::uncached_milli(target, &query),
                output: 0,
                prefilled: false,
            });
        }
        (None, Err(_)) => assert_eq!(seen, None),
        (best, choice) => panic!("the scan finds {best:?}, the board {choice:?}"),
    }
}

fn add(board: &mut Board, plain: &mut Plain, random: &mut Random) {
    let spec = random_spec(random);
    let taken = plain
        .targets
        .iter()
        .any(|target| (&target.spec.worker, target.spec.rank) == (&spec.worker, spec.rank));
    if !taken && plain.targets.len() < 24 {
        let others = plain.targets.iter().filter(|target| target.spec.group == spec.group);
        let served = others.map(|target| target.served).min().unwrap_or(0);
        plain.targets.push(Target { slot: board.add(spec.clone()), spec, served, excesses: Vec::new() });
    }
}

/// An engine says what it has to do, or nothing any more.
fn report(board: &mut Board, plain: &mut Plain, at: usize, random: &mut Random) {
    let slot = plain.targets[at].slot;
    if random.below(6) == 0 {
        board.report(slot, None);
        plain.targets[at].excesses.clear();
        return;
    }
    let reported = Reported { continuations: random.below(12) as u64, tokens: random.below(500) as u64 };
    board.report(slot, Some(reported));
    let ours = |part: fn(&Sent) -> u64| plain.on(slot).map(part).sum::<u64>();
    let excess = Others {
        continuations: reported.continuations.saturating_sub(ours(|sent| sent.continuations)),
        tokens: reported.tokens.saturating_sub(ours(|sent| sent.prompt + sent.output)),
    };
    plain.targets[at].excesses.push(excess);
}

/// Something other than a choice.
fn disturb(board: &mut Board, plain: &mut Plain, random: &mut Random) {
    let at = |len: usize, random: &mut Random| (len > 0).then(|| random.below(len));
    match random.below(12) {
        0 => add(board, plain, random),
        1 => {
            if let Some(at) = at(plain.targets.len(), random).filter(|_| random.below(4) == 0) {
                board.remove(plain.targets.remove(at).slot);
            }
        }
        2 => {
            if let Some(at) = at(plain.targets.len(), random) {
                let target = &mut plain.targets[at];
                target.spec.group = Group(random.below(2) as u32);
                board.regroup(&[(target.slot, target.spec.group)]);
            }
        }
        3..6 => {
            if let Some(at) = at(plain.sent.len(), random) {
                board.prefill_done(plain.sent[at].ticket, Duration::ZERO);
                plain.sent[at].prefilled = true;
            }
        }
        6 => {
            if let Some(at) = at(plain.sent.len(), random) {
                plain.sent[at].output += 3;
                board.grow(plain.sent[at].ticket, 3);
            }
        }
        7 | 8 => {
            if let Some(at) = at(plain.targets.len(), random) {
                report(board, plain, at, random);
            }
        }
        _ => {
            if let Some(at) = at(plain.sent.len(), random) {
                let ticket = plain.sent.remove(at).ticket;
                board.end(ticket);
                board.end(ticket);
            }
        }
    }
}

#[test]
fn every_choice_is_what_a_full_scan_finds_and_the_ledger_is_the_sum_of_its_tickets() {
    for seed in 0..CHOICES / STEPS_PER_BOARD {
        let mut random = Random::new(seed as u64);
        let mut board = Board::new(BoardConfig::new(PolicyKind::Kv, 0));
        let mut plain = Plain::default();
        for _ in 0..random.below(20) {
            add(&mut board, &mut plain, &mut random);
        }
        for _ in 0..STEPS_PER_BOARD {
            choose(&mut board, &mut plain, &mut random);
            for _ in 0..random.below(3) {
                disturb(&mut board, &mut plain, &mut random);
            }
            for target in &plain.targets {
                assert_eq!(board.load(target.slot), plain.load(target.slot), "seed {seed}");
            }
        }
        for sent in plain.sent.drain(..) {
            board.end(sent.ticket);
        }
        assert!(plain.targets.iter().all(|target| board.load(target.slot) == plain.load(target.slot)));
        assert_eq!(board.stats().tickets, 0);
    }
}
