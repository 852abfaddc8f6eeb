//! All that a choice depends on, as one value.

use std::time::Duration;

use tito_types::WorkerId;

use crate::affinity::Affinity;
use crate::choice::{Candidate, Choice, Refusal, Rule};
use crate::cost::{MILLI, Weights, tokens};
use crate::gather::Gather;
use crate::ledger::{Charge, Ledger, Ticket};
use crate::policy::{Policy, PolicyKind};
use crate::predicted::Predicted;
use crate::random::Random;
use crate::siblings::{SiblingRule, Siblings};
use crate::slots::{Load, Reported, Slot, SlotSpec, Slots};
use crate::tournament::Key;
use crate::view::View;
use crate::{Group, Query, Stickiness};

/// How choices are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoardConfig {
    /// The policy.
    pub policy: PolicyKind,
    /// Of the `kv` policy: 0 takes the cheapest slot; above, dearer ones have a chance and every slot is looked at.
    pub temperature: f64,
    /// What costs are made of.
    pub weights: Weights,
    /// How firmly sessions stay. Holds for every policy but `direct`.
    pub stickiness: Stickiness,
    /// Sessions remembered.
    pub sessions_max: usize,
    /// A session not heard of for so long is forgotten.
    pub session_idle: Duration,
    /// Of the `kv` policy: what becomes of siblings.
    pub siblings: SiblingRule,
    /// How long a computed prompt is still expected on its slot, until its events come.
    pub predicted_grace: Duration,
    /// Prompts expected at a time; beyond it requests are sent without.
    pub predicted_max: usize,
    /// Decides every random choice.
    pub seed: u64,
}

impl BoardConfig {
    /// The documented defaults: soft sessions, 65,536 of them for an hour; siblings join up to 4,096 tokens of load;
    /// prompts are expected until 2 s after their prefill.
    pub const fn new(policy: PolicyKind, seed: u64) -> Self {
        Self {
            policy,
            temperature: 0.0,
            weights: Weights::STANDARD,
            stickiness: Stickiness::Soft,
            sessions_max: 65_536,
            session_idle: Duration::from_secs(3600),
            siblings: SiblingRule::Colocate { load_tokens_max: 4096 },
            predicted_grace: Duration::from_secs(2),
            predicted_max: 65_536,
            seed,
        }
    }
}

/// How much a board keeps, for its owner's metrics. All but the total are levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BoardStats {
    /// Tickets that have not ended; they are all the requests in flight, unless one was forgotten.
    pub tickets: usize,
    /// Sessions remembered, at most [`BoardConfig::sessions_max`]. Idle ones count until other sessions are sent
    /// somewhere.
    pub sessions: usize,
    /// Prompts expected, at most [`BoardConfig::predicted_max`]. Those whose time is up count until the next choice or
    /// question about one.
    pub predicted: usize,
    /// Prompts not expected because there were as many as may be: a total that never falls.
    pub predicted_refused: u64,
}

/// The slots, what is in flight on them, and the policy that chooses among them.
#[derive(Debug)]
pub struct Board {
    config: BoardConfig,
    slots: Slots,
    ledger: Ledger,
    predicted: Predicted,
    siblings: Siblings,
    affinity: Affinity,
    policy: Box<dyn Policy>,
    random: Random,
    gather: Gather,
    turns: u64,
}

impl Board {
    /// A board without slots.
    pub fn new(config: BoardConfig) -> Self {
        Self {
            slots: Slots::new(config.weights.to_milli()),
            ledger: Ledger::default(),
            predicted: Predicted::new(config.predicted_max),
            siblings: Siblings::default(),
            affinity: Affinity::new(config.sessions_max, config.session_idle),
            policy: config.policy.build(config.temperature),
            random: Random::new(config.seed),
            gather: Gather::default(),
            turns: 0,
            config,
        }
    }

    /// How choices are made.
    pub fn config(&self) -> &BoardConfig {
        &self.config
    }

    /// A new target without load. One that is not ready is not to be added: whatever is here may be chosen.
    /// O(slots · log slots).
    pub fn add(&mut self, spec: SlotSpec) -> Slot {
        self.slots.add(spec)
    }

    /// The target is gone. Tickets on it end as ever and charge nobody. O(slots · log slots + prompts expected).
    pub fn remove(&mut self, slot: Slot) {
        if self.slots.remove(slot) {
            self.predicted.remove_slot(slot.index);
            self.siblings.remove_slot(slot.index);
        }
    }

    /// The targets serve other names now, as when an adapter was loaded. What is in flight on them stays.
    /// O(slots · log slots) for all together.
    pub fn regroup(&mut self, moves: &[(Slot, Group)]) {
        if !moves.is_empty() {
            self.slots.regroup(moves);
        }
    }

    /// What was sent there before is expected no longer: it was told to drop what it holds. O(prompts expected).
    pub fn forget_expected(&mut self, slot: Slot) {
        if self.slots.alive(slot) {
            self.predicted.remove_slot(slot.index);
        }
    }

    /// Whether everything the slot holds is told in overlaps. Where it is not, a session is trusted to be there.
    pub fn set_known(&mut self, slot: Slot, known: bool) {
        self.slots.update(slot, |entry| entry.known = known);
    }

    /// What the slot's engine says it has to do, whoever sent it; to be called once for each thing it says, and with
    /// `None` when it says nothing any more. What it has beyond what is in flight here enters the slot's cost, in so far
    /// as two reports in a row say so. It never enters the limits.
    pub fn report(&mut self, slot: Slot, reported: Option<Reported>) {
        self.slots.report(slot, reported);
    }

    /// What is in flight on a slot; nothing if it is gone.
    pub fn load(&self, slot: Slot) -> Load {
        if self.slots.alive(slot) { self.slots.load(slot.index) } else { Load::default() }
    }

    /// How much is kept. O(1), so that it may be read under the owner's lock at every scrape.
    pub fn stats(&self) -> BoardStats {
        BoardStats {
            tickets: self.ledger.len(),
            sessions: self.affinity.len(),
            predicted: self.predicted.len(),
            predicted_refused: self.predicted.refused,
        }
    }

    /// Chooses a slot and charges it. `now` must not go back.
    pub fn choose(&mut self, query: &Query<'_>, now: Duration) -> Result<Choice, Refusal> {
        self.pass(now);
        self.gather.fill(&self.slots, &self.predicted, query);
        let view = View { slots: &self.slots, gather: &self.gather, query };
        let mut random = self.random.clone();
        let (pick, rule) = self.decide(&view, &mut random, now)?;
        self.random = random;
        Ok(self.place(query, pick, rule, now))
    }

    /// Where [`Board::choose`] would send the query now, and what decides. Nothing is charged, remembered or drawn; what
    /// `now` ends is forgotten, as by a choice.
    pub fn preview(&mut self, query: &Query<'_>, now: Duration) -> Result<(WorkerId, u32, Rule), Refusal> {
        self.pass(now);
        let mut gather = Gather::default();
        gather.fill(&self.slots, &self.predicted, query);
        let view = View { slots: &self.slots, gather: &gather, query };
        let (pick, rule) = self.decide(&view, &mut self.random.clone(), now)?;
        let spec = self.slots.spec(self.slots.slot_of(pick));
        Ok((spec.worker.clone(), spec.rank, rule))
    }

    /// Charges a slot that was chosen elsewhere.
    pub fn begin(&mut self, slot: Slot, charge: Charge) -> Ticket {
        let uncached = u64::from(charge.uncached_tokens) * MILLI;
        let amounts = (charge.prompt_tokens, uncached, charge.continuations);
        self.ledger.begin(&mut self.slots, slot, amounts, (None, None))
    }

    /// The prompt of a request is computed: its first token came, or its whole answer.
    pub fn prefill_done(&mut self, ticket: Ticket, now: Duration) {
        if let Some(account) = self.ledger.prefill_done(&mut self.slots, ticket)
            && let Some(predicted) = account.predicted
        {
            self.predicted.settle(predicted, now + self.config.predicted_grace);
        }
    }

    /// Tokens of a request came, over all its continuations.
    pub fn grow(&mut self, ticket: Ticket, output_tokens: u32) {
        self.ledger.grow(&mut self.slots, ticket, output_tokens);
    }

    /// A request is over, however it ended. Its prompt is expected no longer if it was never computed.
    pub fn end(&mut self, ticket: Ticket) {
        let Some((account, prefilled)) = self.ledger.end(&mut self.slots, ticket) else { return };
        if let (false, Some(predicted)) = (prefilled, account.predicted) {
            self.predicted.remove(predicted);
        }
        if let (true, Some(key)) = (self.slots.alive(account.slot), account.sibling) {
            self.siblings.end(key, account.slot.index);
        }
    }

    /// Every slot of the query's groups as [`Board::choose`] would see it now, cheapest first, those that do not fit last.
    /// Nothing is charged, remembered or drawn; what `now` ends is forgotten, as by a choice. An impossible pin shows as
    /// no slot that fits.
    pub fn explain(&mut self, query: &Query<'_>, now: Duration) -> Vec<Candidate> {
        self.pass(now);
        let mut gather = Gather::default();
        gather.fill(&self.slots, &self.predicted, query);
        let view = View { slots: &self.slots, gather: &gather, query };
        let mut picks: Vec<(bool, Key)> =
            view.members().map(|slot| (view.unfit(slot).is_some(), view.pick(slot))).collect();
        picks.sort();
        let candidate = |(_, pick): (bool, Key)| {
            let slot = self.slots.slot_of(pick);
            let (spec, held) = (self.slots.spec(slot), gather.held(slot));
            Candidate {
                slot: self.slots.name(slot),
                worker: spec.worker.clone(),
                rank: spec.rank,
                overlap_tokens: overlap_tokens(query, held),
                predicted_tokens: held.predicted,
                load: self.slots.load(slot),
                cost: tokens(pick.value()),
                unfit: view.unfit(slot),
            }
        };
        picks.into_iter().map(candidate).collect()
    }

    /// What slots were given fades, and what was expected for long enough is expected no longer.
    fn pass(&mut self, now: Duration) {
        self.slots.age(now);
        self.predicted.expire(now);
    }

    /// Pin, then session, then siblings, then policy.
    fn decide(&self, view: &View<'_>, random: &mut Random, now: Duration) -> Result<(Key, Rule), Refusal> {
        let pin = view.query.pin.filter(|pin| pin.worker.is_some() || pin.rank.is_some());
        if let Some(pin) = pin {
            view.check_pin(pin)?;
        }
        let decided = match (pin, self.config.policy) {
            (Some(_), _) => self.policy.pick(view, random).map(|pick| (pick, Rule::Pin)),
            (None, PolicyKind::Direct) => return Err(Refusal::PinRequired),
            (None, _) => stay(&self.config, &self.affinity, view, now)
                .map(|pick| (pick, Rule::Session))
                .or_else(|| join(&self.config, &self.siblings, view).map(|pick| (pick, Rule::Siblings)))
                .or_else(|| self.policy.pick(view, random).map(|pick| (pick, Rule::Policy))),
        };
        decided.ok_or_else(|| view.refusal())
    }

    fn place(&mut self, query: &Query<'_>, pick: Key, rule: Rule, now: Duration) -> Choice {
        let index = self.slots.slot_of(pick);
        let held = self.gather.held(index);
        let uncached = self.slots.weights.uncached(query.prompt_tokens, held);
        let slot = self.slots.name(index);
        let chain = query.prefix.map(|prefix| &prefix.chain);
        let predicted = chain.and_then(|chain| self.predicted.insert(index, chain));
        let sibling = chain.and_then(|chain| chain.last().copied());
        if let Some(key) = sibling {
            self.siblings.begin(key, index);
        }
        if let (Some(session), true) = (query.session, rule != Rule::Pin) {
            self.affinity.put(session, slot, query.prompt_tokens, now);
        }
        self.turns += 1;
        self.slots.entries[index as usize].turn = self.turns;
        let amounts = (query.prompt_tokens, uncached, query.continuations);
        let ticket = self.ledger.begin(&mut self.slots, slot, amounts, (predicted, sibling));
        let spec = self.slots.spec(index);
        Choice {
            slot,
            worker: spec.worker.clone(),
            rank: spec.rank,
            ticket,
            overlap_tokens: overlap_tokens(query, held),
            predicted_tokens: held.predicted,
            uncached_tokens: uncached.div_ceil(MILLI) as u32,
            cost: tokens(pick.value()),
            rule,
        }
    }
}

fn overlap_tokens(query: &Query<'_>, held: crate::cost::Held) -> u32 {
    held.gpu.saturating_add(held.cpu).saturating_add(held.storage).min(query.prompt_tokens)
}

/// The session's slot, if it is to stay there.
fn stay(config: &BoardConfig, affinity: &Affinity, view: &View<'_>, now: Duration) -> Option<Key> {
    if config.stickiness == Stickiness::Off {
        return None;
    }
    let (slot, last_prompt_tokens) = affinity.get(view.query.session?, now)?;
    if !view.slots.alive(slot) || !view.fits(slot.index) {
        return None;
    }
    let here = view.pick(slot.index);
    if config.stickiness == Stickiness::Hard {
        return Some(here);
    }
    let (prompt_tokens, weights) = (view.query.prompt_tokens, &view.slots.weights);
    let mut saved = weights.credit(prompt_tokens, view.gather.held(slot.index));
    if !view.slots.entries[slot.index as usize].known {
        saved = saved.max(u64::from(last_prompt_tokens.min(prompt_tokens)) * MILLI);
    }
    let best = view.cheapest()?;
    (here.value() - best.value() <= weights.prefill_price(saved)).then_some(here)
}

/// Where siblings are, or where they are not, if that decides.
fn join(config: &BoardConfig, siblings: &Siblings, view: &View<'_>) -> Option<Key> {
    if config.policy != PolicyKind::Kv {
        return None;
    }
    let places = siblings.places(*view.query.prefix?.chain.last()?);
    if places.is_empty() {
        return None;
    }
    let fitting = || places.iter().filter(|place| view.fits(place.0));
    match config.siblings {
        SiblingRule::Ignore => None,
        SiblingRule::Colocate { load_tokens_max } => {
            let theirs = fitting().map(|place| view.pick(place.0)).min()?;
            let best = view.cheapest()?;
            (theirs.value() - best.value() <= u64::from(load_tokens_max) * MILLI).then_some(theirs)
        }
        SiblingRule::Spread => view
            .cheapest_without(places)
            .or_else(|| fitting().map(|place| (place.1, view.pick(place.0))).min().map(|(_, pick)| pick)),
    }
}

#[cfg(test)]
mod tests;
