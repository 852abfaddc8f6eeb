//! Engine name → place of the block, for all holders that agree on names.
//!
//! A slot of eight bytes holds bits of the name and the place; the name itself is compared in the engine column. Shards
//! grow one at a time and by little, so no growth moves much and no large part of the table is empty. One name may have
//! several places (an adapter that was reloaded on one engine and not on another); `twice` counts the surplus.

use super::budget::{Budget, Full};

/// Bits of an offset in an extent.
pub(super) const OFFSET_BITS: u32 = 12;
/// Bits of an extent's number.
pub(super) const EXTENT_BITS: u32 = 28;
const PLACE_BITS: u32 = OFFSET_BITS + EXTENT_BITS;
const TAG_BITS: u32 = 24;
/// Entries a shard has when the bound is reached, about.
const SHARD_ENTRIES: usize = 1 << 16;
const SHARDS_MAX: usize = 1 << 16;
/// Odd, with well spread bits: 2⁶⁴ / φ.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// Where a block is: the extent's number (from 1) and the offset in it. It stays while the block lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) extent: u32,
    pub(super) offset: u32,
}

/// Slots behind the last home, for entries that do not fit at home; nearly never are so many needed.
const PAD: usize = 24;
const HOMES_MIN: usize = 16;
/// Bytes an entry takes when its shard has just grown.
const ENTRY_BYTES_MAX: usize = 21;

/// Entries in the order of their tags, each at its home or behind it with no empty slot in between: moving them, in or
/// out or to a larger table, needs no decision per entry.
#[derive(Default)]
struct Shard {
    slots: Box<[u64]>,
    len: u32,
    /// The slot before the last one is used: the next insertion needs a larger table.
    crowded: bool,
}

/// Where a name belongs: its shard, and the bits of it that are kept.
#[derive(Clone, Copy, Default)]
pub(super) struct Spot {
    shard: u32,
    tag: u32,
}

pub(super) struct Names {
    shards: Box<[Shard]>,
    bits: u32,
    twice: usize,
    /// Slots of all shards.
    slots: usize,
}

impl Place {
    fn pack(self) -> u64 {
        u64::from(self.extent) << OFFSET_BITS | u64::from(self.offset)
    }

    fn unpack(slot: u64) -> Self {
        Self {
            extent: (slot >> OFFSET_BITS & ((1 << EXTENT_BITS) - 1)) as u32,
            offset: (slot & ((1 << OFFSET_BITS) - 1)) as u32,
        }
    }
}

fn home(tag: u64, homes: usize) -> usize {
    ((tag * homes as u64) >> TAG_BITS) as usize
}

/// Homes for `entries` at the highest load, four fifths.
fn homes_for(entries: usize) -> usize {
    entries * 5 / 4 + 1
}

/// Why a name was not added.
pub(super) enum Refused {
    /// Another place has it.
    Taken,
    /// Its shard cannot grow under the bound.
    Full,
}

impl Shard {
    fn homes(&self) -> usize {
        self.slots.len().saturating_sub(PAD)
    }

    /// Makes room for one more entry. It doubles, so that each entry is moved about once in its life.
    #[inline]
    fn reserve(&mut self, total: &mut usize, budget: &mut Budget) -> Result<(), Full> {
        let wanted = homes_for(self.len as usize + 1);
        if wanted <= self.homes() && !self.crowded {
            return Ok(());
        }
        self.grow(wanted.max(self.homes() * 2).max(HOMES_MIN), total, budget)
    }

    #[cold]
    fn grow(&mut self, homes: usize, total: &mut usize, budget: &mut Budget) -> Result<(), Full> {
        let bytes = (homes + PAD) * size_of::<u64>();
        budget.take(bytes)?;
        let mut slots = vec![0; homes + PAD].into_boxed_slice();
        let mut free = 0;
        for &slot in &self.slots {
            // An empty slot is written where the next entry may go: which slots are empty cannot be predicted.
            let at = home(slot >> PLACE_BITS, homes).max(free);
            if at + 2 >= slots.len() {
                budget.give(bytes);
                return self.grow(homes * 2, total, budget);
            }
            slots[at] = slot;
            free = at + usize::from(slot != 0);
        }
        budget.give(self.slots.len() * size_of::<u64>());
        *total = *total + slots.len() - self.slots.len();
        self.slots = slots;
        self.crowded = false;
        Ok(())
    }

    /// Puts an entry at `at`, where a larger one or none is; those behind it move by one.
    #[inline]
    fn insert_at(&mut self, mut at: usize, slot: u64) {
        let mut carried = slot;
        while carried != 0 {
            carried = std::mem::replace(&mut self.slots[at], carried);
            at += 1;
        }
        // The last slot stays empty: the next insertion may move what is before it by one.
        self.crowded |= at + 1 >= self.slots.len();
        self.len += 1;
    }

    /// Where the first entry with a larger tag, or none, is; or what `seen` returned for one with this tag.
    #[inline]
    fn scan<T>(&self, tag: u64, mut seen: impl FnMut(usize, u64) -> Option<T>) -> Result<T, usize> {
        let mut at = home(tag, self.homes());
        while let Some(&slot) = self.slots.get(at) {
            if slot == 0 || slot >> PLACE_BITS > tag {
                break;
            }
            if slot >> PLACE_BITS == tag
                && let Some(found) = seen(at, slot)
            {
                return Ok(found);
            }
            at += 1;
        }
        Err(at)
    }

    /// Takes an entry out; those behind it that are not at home move back by one.
    #[inline]
    fn remove_at(&mut self, mut at: usize) {
        let homes = self.homes();
        loop {
            let next = self.slots[at + 1];
            if next == 0 || home(next >> PLACE_BITS, homes) > at {
                break;
            }
            self.slots[at] = next;
            at += 1;
        }
        self.slots[at] = 0;
        self.len -= 1;
    }
}

impl Names {
    /// Sized for about `entries_max` names.
    pub(super) fn new(entries_max: usize) -> Self {
        let shards = (entries_max / SHARD_ENTRIES).next_power_of_two().clamp(2, SHARDS_MAX);
        Self {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            bits: shards.trailing_zeros(),
            twice: 0,
            slots: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.shards.len() * size_of::<Shard>()
    }

    /// Bytes that the table may come to need, beyond those it has, to name `blocks` blocks.
    pub(super) fn promised(&self, blocks: usize) -> usize {
        (blocks * ENTRY_BYTES_MAX).saturating_sub(self.slots * size_of::<u64>())
    }

    /// Names that have more than one place, counted once per surplus place.
    pub(super) fn twice(&self) -> usize {
        self.twice
    }

    #[inline]
    pub(super) fn spot(&self, name: u64) -> Spot {
        let spread = name.wrapping_mul(MIX);
        let tag = spread >> (64 - self.bits - TAG_BITS) & ((1 << TAG_BITS) - 1);
        Spot { shard: (spread >> (64 - self.bits)) as u32, tag: tag as u32 }
    }

    fn locate(&self, name: u64) -> (usize, u64) {
        let Spot { shard, tag } = self.spot(name);
        (shard as usize, u64::from(tag))
    }

    /// Reads where a name would be, see [`Self::warm`].
    #[inline]
    pub(super) fn warm_spot(&self, spot: Spot) -> u64 {
        let shard = &self.shards[spot.shard as usize];
        shard.slots.get(home(u64::from(spot.tag), shard.homes())).copied().unwrap_or(0)
    }

    /// Reads where `name` would be. Independent reads of many names overlap; what follows finds them in the cache.
    #[inline]
    pub(super) fn warm(&self, name: u64) -> u64 {
        self.warm_spot(self.spot(name))
    }

    /// Makes room for one more place of `name`.
    pub(super) fn reserve(&mut self, name: u64, budget: &mut Budget) -> Result<(), Full> {
        let (shard, _) = self.locate(name);
        self.shards[shard].reserve(&mut self.slots, budget)
    }

    /// The places whose block is called `name`, which `is` decides.
    #[inline]
    pub(super) fn find(&self, name: u64, mut is: impl FnMut(Place) -> bool) -> Option<Place> {
        let (shard, tag) = self.locate(name);
        let found =
            self.shards[shard].scan(tag, |_, slot| Some(Place::unpack(slot)).filter(|&place| is(place)));
        found.ok()
    }

    /// Adds the name that belongs at `spot`, which no place has, as `is` tells.
    #[inline]
    pub(super) fn insert_new(
        &mut self,
        spot: Spot,
        place: Place,
        mut is: impl FnMut(Place) -> bool,
        budget: &mut Budget,
    ) -> Result<(), Refused> {
        let tag = u64::from(spot.tag);
        let shard = &mut self.shards[spot.shard as usize];
        shard.reserve(&mut self.slots, budget).map_err(|Full| Refused::Full)?;
        match shard.scan(tag, |_, slot| is(Place::unpack(slot)).then_some(())) {
            Ok(()) => Err(Refused::Taken),
            Err(at) => {
                shard.insert_at(at, tag << PLACE_BITS | place.pack());
                Ok(())
            }
        }
    }

    /// Adds a further place of a name that has one. The caller reserved room.
    pub(super) fn insert_twin(&mut self, name: u64, place: Place) {
        let (shard, tag) = self.locate(name);
        let shard = &mut self.shards[shard];
        if let Err(at) = shard.scan(tag, |_, _| None::<()>) {
            shard.insert_at(at, tag << PLACE_BITS | place.pack());
        }
        self.twice += 1;
    }

    /// Forgets one place of `name`; `is` tells whether another place has that name, too.
    #[inline]
    pub(super) fn remove(&mut self, name: u64, place: Place, is: impl FnMut(Place) -> bool) {
        let (shard, tag) = self.locate(name);
        let wanted = tag << PLACE_BITS | place.pack();
        let Ok(at) = self.shards[shard].scan(tag, |at, slot| (slot == wanted).then_some(at)) else { return };
        self.shards[shard].remove_at(at);
        if self.twice > 0 && self.find(name, is).is_some() {
            self.twice -= 1;
        }
    }
}
