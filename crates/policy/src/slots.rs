//! The targets and what is in flight on each.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cost::{MILLI, Milli, MilliWeights};
use crate::tournament::{Key, Tournament};

mod others;
mod parts;

use others::Excess;
pub use others::{Others, Reported};
pub(crate) use parts::Amounts;
pub use parts::{Group, Load, Slot, SlotSpec};

/// What slots were given to compute counts half after so long.
const SERVED_HALVES_EVERY: Duration = Duration::from_secs(600);

/// What a choice reads of every slot, kept small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hot {
    pub(crate) base: Milli,
    /// Prompt tokens it was given to compute lately. Counts in its base load.
    served: u64,
    /// Place in the order by (worker id, rank).
    pub(crate) order: u32,
    pub(crate) group: Group,
    generation: u32,
    /// Continuations it takes now.
    pub(crate) room: u32,
}

#[derive(Debug)]
pub(crate) struct Entry {
    /// Absent once it was removed.
    pub(crate) spec: Option<SlotSpec>,
    /// Whether all it holds is known, so that an overlap of nothing means nothing.
    pub(crate) known: bool,
    /// When it was last chosen, counted in choices.
    pub(crate) turn: u64,
    load: Amounts,
    /// What its engine has beyond that.
    excess: Excess,
    place: u32,
}

#[derive(Debug, Default)]
struct Members {
    /// In order of (worker id, rank).
    slots: Vec<u32>,
    tournament: Tournament,
}

/// All slots.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) entries: Vec<Entry>,
    pub(crate) hot: Vec<Hot>,
    free: Vec<u32>,
    /// The slot at each place of the order.
    by_order: Vec<u32>,
    /// When `served` was halved last.
    aged: Duration,
    groups: BTreeMap<Group, Members>,
    pub(crate) weights: MilliWeights,
}

impl Slots {
    pub(crate) fn new(weights: MilliWeights) -> Self {
        Self {
            entries: Vec::new(),
            hot: Vec::new(),
            free: Vec::new(),
            by_order: Vec::new(),
            aged: Duration::ZERO,
            groups: BTreeMap::new(),
            weights,
        }
    }

    /// O(slots · log slots): membership changes are rare, choices are not.
    pub(crate) fn add(&mut self, spec: SlotSpec) -> Slot {
        let group = spec.group;
        // A newcomer is no more behind than the one that is furthest behind, or it would get everything for a while.
        let others = self.members(group).iter().map(|&index| self.hot[index as usize].served);
        let served = others.min().unwrap_or(0);
        let (load, excess) = (Amounts::default(), Excess::default());
        let entry = Entry { spec: Some(spec), known: false, turn: 0, load, excess, place: 0 };
        let index = if let Some(index) = self.free.pop() {
            self.entries[index as usize] = entry;
            self.hot[index as usize].group = group;
            index
        } else {
            self.entries.push(entry);
            self.hot.push(Hot { base: 0, served: 0, order: 0, group, generation: 0, room: 0 });
            self.entries.len() as u32 - 1
        };
        self.hot[index as usize].served = served;
        self.reorder();
        Slot { index, generation: self.hot[index as usize].generation }
    }

    /// False if it was removed before.
    pub(crate) fn remove(&mut self, slot: Slot) -> bool {
        if !self.alive(slot) {
            return false;
        }
        self.entries[slot.index as usize].spec = None;
        self.hot[slot.index as usize].room = 0;
        self.hot[slot.index as usize].generation += 1;
        // The last generation of an index retires it: a slot is never named like an earlier one.
        if self.hot[slot.index as usize].generation < u32::MAX {
            self.free.push(slot.index);
        }
        self.reorder();
        true
    }

    /// Slots serve other names now; what is in flight on them stays. O(slots · log slots) for all together.
    pub(crate) fn regroup(&mut self, moves: &[(Slot, Group)]) {
        for &(slot, group) in moves {
            if self.alive(slot) {
                let index = slot.index as usize;
                self.hot[index].group = group;
                if let Some(spec) = &mut self.entries[index].spec {
                    spec.group = group;
                }
            }
        }
        self.reorder();
    }

    /// Whether it is there: a name is given with a generation that ends with the slot.
    pub(crate) fn alive(&self, slot: Slot) -> bool {
        self.hot.get(slot.index as usize).is_some_and(|hot| hot.generation == slot.generation)
    }

    /// The name of a slot that is there.
    pub(crate) fn name(&self, index: u32) -> Slot {
        Slot { index, generation: self.hot[index as usize].generation }
    }

    /// The description of a slot that is there.
    pub(crate) fn spec(&self, index: u32) -> &SlotSpec {
        self.entries[index as usize].spec.as_ref().expect("only slots that are there are looked at")
    }

    /// Slots of a group, in order of (worker id, rank).
    pub(crate) fn members(&self, group: Group) -> &[u32] {
        self.groups.get(&group).map_or(&[], |members| &members.slots)
    }

    /// The accepted slot of a group with the least base load below `below`.
    pub(crate) fn least(
        &self,
        group: Group,
        below: Option<Key>,
        mut accept: impl FnMut(u32) -> bool,
    ) -> Option<Key> {
        let accept = |order: u32| accept(self.by_order[order as usize]);
        self.groups.get(&group)?.tournament.least(below, accept)
    }

    pub(crate) fn key(&self, index: u32) -> Key {
        let hot = &self.hot[index as usize];
        Key::new(hot.base, hot.order)
    }

    /// The slot a key stands for.
    pub(crate) fn slot_of(&self, key: Key) -> u32 {
        self.by_order[key.order() as usize]
    }

    pub(crate) fn load(&self, index: u32) -> Load {
        let Entry { load, excess, .. } = &self.entries[index as usize];
        Load {
            requests: load.requests,
            continuations: load.continuations,
            prefill_tokens: load.prefill.div_ceil(MILLI),
            decode_tokens: load.decode,
            others: excess.counted,
        }
    }

    pub(crate) fn update(&mut self, slot: Slot, change: impl FnOnce(&mut Entry)) {
        if self.alive(slot) {
            change(&mut self.entries[slot.index as usize]);
            self.refresh(slot.index);
        }
    }

    /// A request more.
    pub(crate) fn begin(&mut self, slot: Slot, amounts: Amounts) {
        if self.alive(slot) {
            let hot = &mut self.hot[slot.index as usize];
            hot.served = hot.served.saturating_add(amounts.prefill.div_ceil(MILLI));
        }
        self.add_load(slot, amounts);
    }

    /// Lets what slots were given to compute fade. Usually does nothing; O(slots) every ten minutes.
    pub(crate) fn age(&mut self, now: Duration) {
        let halvings = now.saturating_sub(self.aged).as_secs() / SERVED_HALVES_EVERY.as_secs();
        let halvings = halvings.min(u64::from(u32::MAX)) as u32;
        if halvings == 0 {
            return;
        }
        self.aged += SERVED_HALVES_EVERY * halvings;
        for index in 0..self.hot.len() as u32 {
            let hot = &mut self.hot[index as usize];
            hot.served = hot.served.checked_shr(halvings).unwrap_or(0);
            if self.entries[index as usize].spec.is_some() {
                self.refresh(index);
            }
        }
    }

    pub(crate) fn add_load(&mut self, slot: Slot, amounts: Amounts) {
        self.update(slot, |entry| entry.load.add(amounts));
    }

    pub(crate) fn subtract_load(&mut self, slot: Slot, amounts: Amounts) {
        self.update(slot, |entry| entry.load.subtract(amounts));
    }

    /// Both changes as one, so that the order is put right once.
    pub(crate) fn replace_load(&mut self, slot: Slot, old: Amounts, new: Amounts) {
        self.update(slot, |entry| {
            entry.load.subtract(old);
            entry.load.add(new);
        });
    }

    /// What its engine says of it, or that it says nothing any more.
    pub(crate) fn report(&mut self, slot: Slot, reported: Option<Reported>) {
        self.update(slot, |entry| entry.excess.book(reported, entry.load));
    }

    /// Gives every slot its place in the order and builds the groups anew.
    fn reorder(&mut self) {
        let mut sorted: Vec<u32> = (0..self.entries.len() as u32)
            .filter(|&index| self.entries[index as usize].spec.is_some())
            .collect();
        sorted.sort_by(|&a, &b| {
            let (a_spec, b_spec) = (self.spec(a), self.spec(b));
            (&a_spec.worker, a_spec.rank, a).cmp(&(&b_spec.worker, b_spec.rank, b))
        });
        let mut groups: BTreeMap<Group, Members> = BTreeMap::new();
        for (order, &index) in sorted.iter().enumerate() {
            let members = groups.entry(self.spec(index).group).or_default();
            self.entries[index as usize].place = members.slots.len() as u32;
            members.slots.push(index);
            self.hot[index as usize].order = order as u32;
            self.price(index);
        }
        for members in groups.values_mut() {
            members.tournament = Tournament::new(members.slots.iter().map(|&index| self.open_key(index)));
        }
        self.groups = groups;
        self.by_order = sorted;
    }

    fn refresh(&mut self, index: u32) {
        self.price(index);
        let key = self.open_key(index);
        let (group, place) = (self.hot[index as usize].group, self.entries[index as usize].place);
        if let Some(members) = self.groups.get_mut(&group) {
            members.tournament.set(place, key);
        }
    }

    /// The key of a slot that takes anything at all.
    fn open_key(&self, index: u32) -> Option<Key> {
        (self.hot[index as usize].room > 0).then(|| self.key(index))
    }

    /// Base load of a slot, from what is in flight there and what its engine has beyond that; its room, from the former
    /// alone: a report that is wrong must not close a slot.
    fn price(&mut self, index: u32) {
        let (entry, served) = (&self.entries[index as usize], self.hot[index as usize].served);
        let Some(spec) = &entry.spec else { return };
        let (load, weights) = (entry.load, &self.weights);
        let others = entry.excess.counted.unwrap_or_default();
        let held = load.held.saturating_add(others.tokens);
        let roomy = if spec.capacity_tokens == 0 { u64::MAX } else { spec.capacity_tokens / 10 * 9 };
        let seats = if spec.running_max == 0 { u64::MAX } else { u64::from(spec.running_max) };
        let standing = load.continuations.saturating_add(others.continuations).saturating_sub(seats);
        let base = [
            weights.prefill_price(load.prefill),
            weights.decode.saturating_mul(held),
            weights.pressure.saturating_mul(held.saturating_sub(roomy)),
            weights.seat.saturating_mul(standing),
            weights.fill.saturating_mul(served),
        ];
        let room = if load.requests == 0 || spec.continuations_max == u32::MAX {
            u32::MAX
        } else {
            u64::from(spec.continuations_max).saturating_sub(load.continuations) as u32
        };
        let hot = &mut self.hot[index as usize];
        // Leaves room for the price of a request, so that sums cannot reach the end of the range.
        hot.base = base.into_iter().fold(0, u64::saturating_add).min(u64::MAX / 4);
        hot.room = room;
    }
}
