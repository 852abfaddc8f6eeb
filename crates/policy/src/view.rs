//! The slots as one query sees them. Changes nothing.

use crate::choice::{NAMES_MAX, Refusal, Unfit};
use crate::cost::Held;
use crate::gather::Gather;
use crate::siblings::Places;
use crate::slots::Slots;
use crate::tournament::Key;
use crate::{Pin, Query};

#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) slots: &'a Slots,
    pub(crate) gather: &'a Gather,
    pub(crate) query: &'a Query<'a>,
}

impl View<'_> {
    /// Whether the query, which is of the slot's group, may be sent there.
    fn takes(&self, slot: u32) -> bool {
        self.slots.hot[slot as usize].room >= self.query.continuations.max(1)
            && (self.query.exclude.is_empty() || !self.excluded(slot))
            && self.query.pin.is_none_or(|pin| self.pinned(pin, slot))
    }

    /// Whether the query may be sent there.
    pub(crate) fn fits(&self, slot: u32) -> bool {
        self.query.groups.contains(&self.slots.hot[slot as usize].group) && self.takes(slot)
    }

    /// The cost of sending it there.
    pub(crate) fn pick(&self, slot: u32) -> Key {
        self.price(slot, self.gather.held(slot))
    }

    fn price(&self, slot: u32, held: Held) -> Key {
        let uncached = self.slots.weights.uncached(self.query.prompt_tokens, held);
        let hot = &self.slots.hot[slot as usize];
        let cost = hot.base + self.slots.weights.prefill_price(uncached);
        Key::new(cost, hot.order)
    }

    /// The cheapest slot, exactly, without looking at all of them.
    ///
    /// Slots that hold part of the prompt are priced one by one. The rest cost their base load plus the whole prompt,
    /// so the least base load wins among them. It does no harm that the holders take part there too: without its
    /// credit a holder looks dearer than it is, so when one wins that round its true cost beats all the others'.
    pub(crate) fn cheapest(&self) -> Option<Key> {
        self.cheapest_of(|slot| self.takes(slot))
    }

    /// The cheapest slot without siblings, exactly.
    pub(crate) fn cheapest_without(&self, siblings: &Places) -> Option<Key> {
        let alone = |slot: u32| siblings.binary_search_by_key(&slot, |place| place.0).is_err();
        self.cheapest_of(|slot| alone(slot) && self.takes(slot))
    }

    fn cheapest_of(&self, accept: impl Fn(u32) -> bool) -> Option<Key> {
        let holders = self.gather.holdings.iter().filter(|holding| accept(holding.slot));
        let holder = holders.map(|holding| self.price(holding.slot, holding.held)).min();
        let idle = self.least_loaded_of(&accept).map(|key| self.pick(self.slots.slot_of(key)));
        match (holder, idle) {
            (Some(holder), Some(idle)) => Some(holder.min(idle)),
            (holder, idle) => holder.or(idle),
        }
    }

    /// The least loaded slot, whatever it holds.
    pub(crate) fn least_loaded(&self) -> Option<Key> {
        self.least_loaded_of(|slot| self.takes(slot)).map(|key| self.pick(self.slots.slot_of(key)))
    }

    fn least_loaded_of(&self, accept: impl Fn(u32) -> bool) -> Option<Key> {
        let mut best = None;
        for &group in self.query.groups {
            best = self.slots.least(group, best, &accept).or(best);
        }
        best
    }

    /// Every slot the query may be sent to, group by group.
    pub(crate) fn fitting(&self) -> impl Iterator<Item = u32> + '_ {
        self.members().filter(|&slot| self.takes(slot))
    }

    /// Every slot of the query's groups, fit or not.
    pub(crate) fn members(&self) -> impl Iterator<Item = u32> + '_ {
        self.query.groups.iter().flat_map(|&group| self.slots.members(group).iter().copied())
    }

    /// Why the query may not be sent there.
    pub(crate) fn unfit(&self, slot: u32) -> Option<Unfit> {
        if self.query.pin.is_some_and(|pin| !self.pinned(pin, slot)) {
            Some(Unfit::PinnedElsewhere)
        } else if self.excluded(slot) {
            Some(Unfit::Excluded)
        } else if self.slots.hot[slot as usize].room < self.query.continuations.max(1) {
            Some(Unfit::Full)
        } else {
            None
        }
    }

    /// Why the query can be sent nowhere; asked when nothing fits.
    pub(crate) fn refusal(&self) -> Refusal {
        let mut excluded = false;
        for slot in self.members() {
            match self.unfit(slot) {
                None | Some(Unfit::Full) => return Refusal::Full,
                Some(Unfit::Excluded) => excluded = true,
                Some(Unfit::PinnedElsewhere) => {}
            }
        }
        if excluded { Refusal::Excluded } else { Refusal::Nobody }
    }

    /// Whether a pin can be honoured at all; if not, what could.
    pub(crate) fn check_pin(&self, pin: &Pin) -> Result<(), Refusal> {
        if self.members().next().is_none() || self.members().any(|slot| self.pinned(pin, slot)) {
            return Ok(());
        }
        let specs = || self.members().map(|slot| self.slots.spec(slot));
        let worker_known =
            pin.worker.as_ref().is_none_or(|worker| specs().any(|spec| spec.worker == *worker));
        match (&pin.worker, pin.rank) {
            (worker, Some(rank)) if worker_known => {
                let on_worker = |name: &_| worker.as_ref().is_none_or(|worker| worker == name);
                let valid = sorted(specs().filter(|spec| on_worker(&spec.worker)).map(|spec| spec.rank));
                Err(Refusal::UnknownRank { rank, worker: worker.clone(), valid })
            }
            (Some(worker), _) => {
                let valid = sorted(specs().map(|spec| spec.worker.clone()));
                Err(Refusal::UnknownWorker { worker: worker.clone(), valid })
            }
            (None, _) => Ok(()),
        }
    }

    fn pinned(&self, pin: &Pin, slot: u32) -> bool {
        if *pin == Pin::default() {
            return true;
        }
        let spec = self.slots.spec(slot);
        pin.worker.as_ref().is_none_or(|worker| *worker == spec.worker)
            && pin.rank.is_none_or(|rank| rank == spec.rank)
    }

    fn excluded(&self, slot: u32) -> bool {
        self.query.exclude.contains(&self.slots.spec(slot).worker)
    }
}

/// In order, each once, the first 64.
fn sorted<T: Ord>(names: impl Iterator<Item = T>) -> Vec<T> {
    let mut names: Vec<T> = names.collect();
    names.sort();
    names.dedup();
    names.truncate(NAMES_MAX);
    names
}
