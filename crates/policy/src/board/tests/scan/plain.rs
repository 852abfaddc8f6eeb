//! What a board should know and decide, in the plainest form: lists, and a look at every target.

use super::super::*;

/// Cost in thousandths of a token, worker, rank: the order of choices.
pub(super) type Place = (u64, WorkerId, u32);

pub(super) struct Sent {
    pub(super) ticket: Ticket,
    pub(super) slot: Slot,
    continuations: u64,
    prompt: u64,
    uncached_milli: u64,
    output: u64,
    prefilled: bool,
    chain: Arc<[u64]>,
}

pub(super) struct Target {
    pub(super) slot: Slot,
    pub(super) spec: SlotSpec,
    served: u64,
    known: bool,
    /// What each report since the last silence had beyond the ledger of its moment.
    excesses: Vec<Others>,
}

/// A prompt that was sent to a slot, until the time when its events must have come.
struct Expected {
    ticket: Ticket,
    slot: Slot,
    chain: Arc<[u64]>,
    until: Option<Duration>,
}

struct Session {
    key: u64,
    slot: Slot,
    prompt_tokens: u32,
    used: Duration,
}

pub(super) struct Plain {
    config: BoardConfig,
    pub(super) targets: Vec<Target>,
    pub(super) sent: Vec<Sent>,
    expected: Vec<Expected>,
    /// The one used last at the end.
    sessions: Vec<Session>,
    halved: Duration,
}

impl Plain {
    pub(super) fn new(config: BoardConfig) -> Self {
        let halved = Duration::ZERO;
        Self { config, targets: vec![], sent: vec![], expected: vec![], sessions: vec![], halved }
    }

    pub(super) fn add(&mut self, slot: Slot, spec: SlotSpec) {
        let others = self.targets.iter().filter(|target| target.spec.group == spec.group);
        let served = others.map(|target| target.served).min().unwrap_or(0);
        self.targets.push(Target { slot, spec, served, known: false, excesses: Vec::new() });
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        self.targets.retain(|target| target.slot != slot);
        self.forget_expected(slot);
    }

    pub(super) fn forget_expected(&mut self, slot: Slot) {
        self.expected.retain(|expected| expected.slot != slot);
    }

    pub(super) fn set_known(&mut self, slot: Slot, known: bool) {
        self.target_mut(slot).known = known;
    }

    pub(super) fn report(&mut self, slot: Slot, reported: Option<Reported>) {
        let ours = |part: fn(&Sent) -> u64| self.on(slot).map(part).sum::<u64>();
        let excess = reported.map(|reported| Others {
            continuations: reported.continuations.saturating_sub(ours(|sent| sent.continuations)),
            tokens: reported.tokens.saturating_sub(ours(|sent| sent.prompt + sent.output)),
        });
        let excesses = &mut self.target_mut(slot).excesses;
        match excess {
            Some(excess) => excesses.push(excess),
            None => excesses.clear(),
        }
    }

    /// Time passed: what was computed fades, and what was expected is expected no longer.
    pub(super) fn pass(&mut self, now: Duration) {
        while now >= self.halved + Duration::from_secs(600) {
            self.halved += Duration::from_secs(600);
            self.targets.iter_mut().for_each(|target| target.served /= 2);
        }
        self.expected.retain(|expected| expected.until.is_none_or(|until| until > now));
    }

    pub(super) fn prefill_done(&mut self, ticket: Ticket, now: Duration) {
        let until = now + self.config.predicted_grace;
        self.sent_mut(ticket).prefilled = true;
        let expected = self.expected.iter_mut().find(|expected| expected.ticket == ticket);
        if let Some(Expected { until: missing @ None, .. }) = expected {
            *missing = Some(until);
        }
    }

    pub(super) fn grow(&mut self, ticket: Ticket, tokens: u32) {
        self.sent_mut(ticket).output += u64::from(tokens);
    }

    pub(super) fn end(&mut self, ticket: Ticket) {
        self.sent.retain(|sent| sent.ticket != ticket);
        self.expected.retain(|expected| expected.ticket != ticket || expected.until.is_some());
    }

    /// The board sent the query there.
    pub(super) fn place(&mut self, query: &Query<'_>, choice: &Choice, now: Duration) {
        let Choice { slot, ticket, rule, .. } = *choice;
        let chain = query.prefix.map_or_else(|| Arc::from([]), |prefix| Arc::clone(&prefix.chain));
        let uncached_milli = self.uncached_milli(self.target(slot).unwrap(), query);
        self.target_mut(slot).served += uncached_milli.div_ceil(1000);
        if !chain.is_empty() && self.expected.len() < self.config.predicted_max {
            self.expected.push(Expected { ticket, slot, chain: Arc::clone(&chain), until: None });
        }
        if let (Some(key), true) = (query.session, rule != Rule::Pin) {
            self.sessions.retain(|session| session.key != key);
            self.sessions.push(Session { key, slot, prompt_tokens: query.prompt_tokens, used: now });
            let surplus = self.sessions.len().saturating_sub(self.config.sessions_max);
            self.sessions.drain(..surplus);
        }
        let (continuations, prompt) = (u64::from(query.continuations), u64::from(query.prompt_tokens));
        let (output, prefilled) = (0, false);
        self.sent.push(Sent {
            ticket,
            slot,
            continuations,
            prompt,
            uncached_milli,
            output,
            prefilled,
            chain,
        });
    }

    pub(super) fn load(&self, slot: Slot) -> Load {
        let sum = |part: fn(&Sent) -> u64| self.on(slot).map(part).sum::<u64>();
        Load {
            requests: sum(|_| 1),
            continuations: sum(|sent| sent.continuations),
            prefill_tokens: sum(|sent| if sent.prefilled { 0 } else { sent.uncached_milli }).div_ceil(1000),
            decode_tokens: sum(|sent| if sent.prefilled { sent.prompt + sent.output } else { 0 }),
            others: self.target(slot).and_then(Self::others),
        }
    }

    /// Where the query goes, and what decides: pin, session, siblings, cost.
    pub(super) fn decide(&self, query: &Query<'_>, now: Duration) -> Option<(Place, Rule)> {
        let best = self.best(query)?;
        if query.pin.is_some_and(|pin| *pin != Pin::default()) {
            return Some((best, Rule::Pin));
        }
        let session = self.stay(query, best.0, now).map(|place| (place, Rule::Session));
        let siblings = || self.join(query, best.0).map(|place| (place, Rule::Siblings));
        session.or_else(siblings).or(Some((best, Rule::Policy)))
    }

    /// The cheapest that fits.
    pub(super) fn best(&self, query: &Query<'_>) -> Option<Place> {
        self.fitting(query).map(|target| self.rate(target, query)).min()
    }

    fn stay(&self, query: &Query<'_>, best: u64, now: Duration) -> Option<Place> {
        let session = self.sessions.iter().find(|session| Some(session.key) == query.session)?;
        let target = self.fitting(query).find(|target| target.slot == session.slot)?;
        let here = self.rate(target, query);
        let held = u64::from(query.prompt_tokens) * 1000 - self.uncached_milli(target, query);
        let guessed = u64::from(session.prompt_tokens.min(query.prompt_tokens)) * 1000;
        let saved = if target.known { held } else { held.max(guessed) };
        let stays = match self.config.stickiness {
            Stickiness::Off => false,
            Stickiness::Soft => here.0 - best <= saved,
            Stickiness::Hard => true,
        };
        (stays && session.used + self.config.session_idle > now).then_some(here)
    }

    fn join(&self, query: &Query<'_>, best: u64) -> Option<Place> {
        let chain = &query.prefix.filter(|prefix| !prefix.chain.is_empty())?.chain;
        let count = |target: &Target| self.on(target.slot).filter(|sent| sent.chain == *chain).count();
        if self.targets.iter().all(|target| count(target) == 0) {
            return None;
        }
        let rated = self.fitting(query).map(|target| (count(target), self.rate(target, query)));
        match self.config.siblings {
            SiblingRule::Ignore => None,
            SiblingRule::Colocate { load_tokens_max } => {
                let theirs = rated.filter(|(count, _)| *count > 0).map(|(_, place)| place).min()?;
                (theirs.0 - best <= u64::from(load_tokens_max) * 1000).then_some(theirs)
            }
            SiblingRule::Spread => rated.min().map(|(_, place)| place),
        }
    }

    fn fitting(&self, query: &Query<'_>) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(|target| self.fits(target, query))
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

    fn rate(&self, target: &Target, query: &Query<'_>) -> Place {
        (self.cost(target, query), target.spec.worker.clone(), target.spec.rank)
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
            + self.uncached_milli(target, query)
    }

    /// Token by token; the last of a prompt is always computed.
    fn uncached_milli(&self, target: &Target, query: &Query<'_>) -> u64 {
        let overlap = query.overlaps.iter().find(|overlap| overlap.slot == target.slot);
        let tiers = |overlap: &Overlap| [overlap.gpu_tokens, overlap.cpu_tokens, overlap.storage_tokens];
        let [gpu, cpu, storage] = overlap.map_or([0; 3], tiers);
        let device = gpu.max(self.expected_tokens(target.slot, query));
        let credit = |token: u32| match token {
            _ if token < device => 1000,
            _ if token < gpu + cpu => 750,
            _ if token < gpu + cpu + storage => 250,
            _ => 0,
        };
        let held = (0..query.prompt_tokens.saturating_sub(1)).map(credit).sum::<u64>();
        u64::from(query.prompt_tokens) * 1000 - held
    }

    /// The longest beginning that the query shares with a prompt expected there.
    pub(super) fn expected_tokens(&self, slot: Slot, query: &Query<'_>) -> u32 {
        let Some(prefix) = query.prefix else { return 0 };
        let shared = |expected: &Expected| {
            let pairs = expected.chain.iter().zip(prefix.chain.iter());
            pairs.take_while(|(theirs, ours)| theirs == ours).count() as u32
        };
        let there = self.expected.iter().filter(|expected| expected.slot == slot);
        there.map(shared).max().unwrap_or(0) * prefix.block_tokens
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

    fn on(&self, slot: Slot) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(move |sent| sent.slot == slot)
    }

    fn target(&self, slot: Slot) -> Option<&Target> {
        self.targets.iter().find(|target| target.slot == slot)
    }

    fn target_mut(&mut self, slot: Slot) -> &mut Target {
        self.targets.iter_mut().find(|target| target.slot == slot).unwrap()
    }

    fn sent_mut(&mut self, ticket: Ticket) -> &mut Sent {
        self.sent.iter_mut().find(|sent| sent.ticket == ticket).unwrap()
    }
}
