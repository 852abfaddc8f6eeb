//! Requests in flight with equal leading blocks and salt: the continuations of one group, sent one by one.

use smallvec::SmallVec;

use crate::fast_map::FastMap;

/// What becomes of a request whose siblings are in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiblingRule {
    /// It joins them, so that their prompt is computed once, as long as the cheapest slot where they are costs at
    /// most this many tokens of prefill more than the cheapest slot of all.
    Colocate {
        /// The bound. Beyond it a whole group on one slot would be slower than computing the prompt again.
        load_tokens_max: u32,
    },
    /// It goes where the fewest of them are, and among those where it costs least. The prompt is computed once per
    /// slot; no slot becomes the straggler of the group.
    Spread,
    /// They count like any others.
    Ignore,
}

/// Slots and how many siblings each has, by slot.
pub(crate) type Places = [(u32, u32)];

/// Who is in flight, by the hash of the last full block of the prompt. One entry per request at most.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    /// Most groups are on one slot or two.
    places: FastMap<SmallVec<[(u32, u32); 2]>>,
}

impl Siblings {
    pub(crate) fn places(&self, key: u64) -> &Places {
        self.places.get(&key).map_or(&[], SmallVec::as_slice)
    }

    pub(crate) fn begin(&mut self, key: u64, slot: u32) {
        let places = self.places.entry(key).or_default();
        match places.binary_search_by_key(&slot, |place| place.0) {
            Ok(at) => places[at].1 += 1,
            Err(at) => places.insert(at, (slot, 1)),
        }
    }

    pub(crate) fn end(&mut self, key: u64, slot: u32) {
        let Some(places) = self.places.get_mut(&key) else { return };
        if let Ok(at) = places.binary_search_by_key(&slot, |place| place.0) {
            places[at].1 -= 1;
            if places[at].1 == 0 {
                places.remove(at);
            }
        }
        if places.is_empty() {
            self.places.remove(&key);
        }
    }

    pub(crate) fn remove_slot(&mut self, slot: u32) {
        self.places.retain(|_, places| {
            places.retain(|place| place.0 != slot);
            !places.is_empty()
        });
    }
}
