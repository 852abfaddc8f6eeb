//! By turn, by chance or by load: policies that do not ask what a slot holds.

use super::Policy;
use crate::random::Random;
use crate::tournament::Key;
use crate::view::View;

/// The slot not chosen for the longest. Unlike a counter this stays fair when slots come and go, and when several
/// models share slots.
#[derive(Debug)]
pub(super) struct RoundRobin;

impl Policy for RoundRobin {
    fn pick(&self, view: &View<'_>, _: &mut Random) -> Option<Key> {
        let turn = |slot: u32| (view.slots.entries[slot as usize].turn, view.slots.hot[slot as usize].order);
        view.fitting().min_by_key(|&slot| turn(slot)).map(|slot| view.pick(slot))
    }
}

/// Any slot, evenly.
#[derive(Debug)]
pub(super) struct Any;

impl Policy for Any {
    fn pick(&self, view: &View<'_>, random: &mut Random) -> Option<Key> {
        let count = view.fitting().count();
        let at = random.below(count);
        view.fitting().nth(at).map(|slot| view.pick(slot))
    }
}

/// The less loaded of two different random slots.
#[derive(Debug)]
pub(super) struct PowerOfTwo;

impl Policy for PowerOfTwo {
    fn pick(&self, view: &View<'_>, random: &mut Random) -> Option<Key> {
        let count = view.fitting().count();
        let first = random.below(count);
        // Any of the others: those from `first` on move up by one.
        let second = random.below(count.saturating_sub(1));
        let second = if second >= first { second + 1 } else { second };
        let both = view.fitting().enumerate().filter(|(at, _)| *at == first || *at == second);
        let key = both.map(|(_, slot)| view.slots.key(slot)).min()?;
        Some(view.pick(view.slots.slot_of(key)))
    }
}

/// The least base load; ties as for costs. Does not look at every slot.
#[derive(Debug)]
pub(super) struct LeastLoaded;

impl Policy for LeastLoaded {
    fn pick(&self, view: &View<'_>, _: &mut Random) -> Option<Key> {
        view.least_loaded()
    }
}
