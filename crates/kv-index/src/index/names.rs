//! Engine name → place of the block, for all holders that agree on names.
//!
//! An entry of eight bytes holds bits of the name and the place; the name itself is compared in the engine column. Shards
//! grow one at a time, so no growth moves much. One name may have several places (an adapter that was reloaded on one
//! engine and not on another); `twice` counts the surplus.

use super::bucket::{Bucket, ENTRIES};
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

const BUCKETS_MIN: usize = 2;
/// Bytes an entry takes when its shard has just grown.
const ENTRY_BYTES_MAX: usize = 23;

/// Buckets in the order of their entries' tags, so that a larger table is filled from one end to the other.
#[derive(Default)]
struct Shard {
    buckets: Box<[Bucket]>,
    len: u32,
    /// Whether entries were removed since it last grew.
    shrank: bool,
}

/// Where a name belongs: its shard, and the bits of it that are kept.
#[derive(Clone, Copy, Default)]
pub(super) struct Spot {
    shard: u32,
    tag: u32,
    mark: u8,
}

pub(super) struct Names {
    shards: Box<[Shard]>,
    bits: u32,
    twice: usize,
    /// Buckets of all shards.
    buckets: usize,
}

impl Place {
    fn pack(self) -> u64 {
        u64::from(self.extent) << OFFSET_BITS | u64::from(self.offset)
    }

    fn unpack(entry: u64) -> Self {
        Self {
            extent: (entry >> OFFSET_BITS & ((1 << EXTENT_BITS) - 1)) as u32,
            offset: (entry & ((1 << OFFSET_BITS) - 1)) as u32,
        }
    }
}

fn entry_of(spot: Spot, place: Place) -> u64 {
    u64::from(spot.tag) << PLACE_BITS | place.pack()
}

/// Why a name was not added.
pub(super) enum Refused {
    /// Another place has it.
    Taken,
    /// Its shard cannot grow under the bound.
    Full,
}

impl Shard {
    #[inline]
    fn home(&self, spot: Spot) -> usize {
        ((u64::from(spot.tag) * self.buckets.len() as u64) >> TAG_BITS) as usize
    }

    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Makes room for one more entry: at most four fifths of the places are used.
    #[inline]
    fn reserve(&mut self, total: &mut usize, budget: &mut Budget) -> Result<(), Full> {
        let fits = (self.len as usize + 1) * 5 <= self.buckets.len() * ENTRIES * 4;
        if fits { Ok(()) } else { self.grow(total, budget) }
    }

    /// A shard that only gains entries doubles, so that each is moved about once in its life. One that loses some, too,
    /// grows by little: its size goes up and down, and it keeps what it had at the highest point.
    #[cold]
    fn grow(&mut self, total: &mut usize, budget: &mut Budget) -> Result<(), Full> {
        let old = self.buckets.len();
        let buckets = (if self.shrank { old + old / 8 + 1 } else { old * 2 }).max(BUCKETS_MIN);
        budget.take(buckets * size_of::<Bucket>())?;
        let mut larger =
            Self { buckets: vec![Bucket::default(); buckets].into_boxed_slice(), ..Self::default() };
        for bucket in &self.buckets {
            for (mark, entry) in bucket.each() {
                larger.insert(Spot { shard: 0, tag: (entry >> PLACE_BITS) as u32, mark }, entry);
            }
        }
        budget.give(old * size_of::<Bucket>());
        *total = *total + buckets - old;
        *self = larger;
        Ok(())
    }

    /// Adds an entry. The caller reserved room.
    #[inline]
    fn insert(&mut self, spot: Spot, entry: u64) {
        let mut at = self.home(spot);
        while !self.buckets[at].push(spot.mark, entry) {
            self.buckets[at].pass();
            at = self.after(at);
        }
        self.len += 1;
    }

    /// What `seen` returns for one of the entries that belong at `spot`, given its bucket and where it is in it.
    #[inline]
    fn scan<T>(&self, spot: Spot, mut seen: impl FnMut(usize, usize, u64) -> Option<T>) -> Option<T> {
        let mut bucket = self.home(spot);
        for _ in 0..self.buckets.len() {
            for (at, entry) in self.buckets[bucket].alike(spot.mark) {
                if entry >> PLACE_BITS == u64::from(spot.tag)
                    && let Some(found) = seen(bucket, at, entry)
                {
                    return Some(found);
                }
            }
            if self.buckets[bucket].passed() == 0 {
                break;
            }
            bucket = self.after(bucket);
        }
        None
    }

    /// Takes out the entry at `at` of `bucket`, which belongs at `spot`.
    #[inline]
    fn remove(&mut self, spot: Spot, bucket: usize, at: usize) {
        self.buckets[bucket].take(at);
        let mut before = self.home(spot);
        while before != bucket {
            self.buckets[before].unpass();
            before = self.after(before);
        }
        self.len -= 1;
        self.shrank = true;
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
            buckets: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.shards.len() * size_of::<Shard>()
    }

    /// Bytes that the table may come to need, beyond those it has, to name `blocks` blocks.
    pub(super) fn promised(&self, blocks: usize) -> usize {
        (blocks * ENTRY_BYTES_MAX).saturating_sub(self.buckets * size_of::<Bucket>())
    }

    /// Names that have more than one place, counted once per surplus place.
    pub(super) fn twice(&self) -> usize {
        self.twice
    }

    #[inline]
    pub(super) fn spot(&self, name: u64) -> Spot {
        let spread = name.wrapping_mul(MIX);
        let rest = spread << self.bits;
        Spot {
            shard: (spread >> (64 - self.bits)) as u32,
            tag: (rest >> (64 - TAG_BITS)) as u32,
            mark: (rest >> (64 - TAG_BITS - 8)) as u8 | 0x80,
        }
    }

    /// Reads where an entry would be, so that what follows finds it in the cache. Independent reads overlap.
    #[inline]
    pub(super) fn warm(&self, spot: Spot) -> u64 {
        let shard = &self.shards[spot.shard as usize];
        shard.buckets.get(shard.home(spot)).map_or(0, Bucket::word)
    }

    /// Makes room for one more place of `name`.
    pub(super) fn reserve(&mut self, name: u64, budget: &mut Budget) -> Result<(), Full> {
        let spot = self.spot(name);
        self.shards[spot.shard as usize].reserve(&mut self.buckets, budget)
    }

    /// The places whose block is called `name`, which `is` decides.
    #[inline]
    pub(super) fn find(&self, name: u64, mut is: impl FnMut(Place) -> bool) -> Option<Place> {
        let spot = self.spot(name);
        let place = |_, _, entry| Some(Place::unpack(entry)).filter(|&place| is(place));
        self.shards[spot.shard as usize].scan(spot, place)
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
        let shard = &mut self.shards[spot.shard as usize];
        shard.reserve(&mut self.buckets, budget).map_err(|Full| Refused::Full)?;
        if shard.scan(spot, |_, _, entry| is(Place::unpack(entry)).then_some(())).is_some() {
            return Err(Refused::Taken);
        }
        shard.insert(spot, entry_of(spot, place));
        Ok(())
    }

    /// Adds a further place of a name that has one. The caller reserved room.
    pub(super) fn insert_twin(&mut self, name: u64, place: Place) {
        let spot = self.spot(name);
        self.shards[spot.shard as usize].insert(spot, entry_of(spot, place));
        self.twice += 1;
    }

    /// Forgets one place of `name`; `is` tells whether another place has that name, too.
    #[inline]
    pub(super) fn remove(&mut self, name: u64, place: Place, is: impl FnMut(Place) -> bool) {
        let spot = self.spot(name);
        let wanted = entry_of(spot, place);
        let shard = &mut self.shards[spot.shard as usize];
        let Some((bucket, at)) =
            shard.scan(spot, |bucket, at, entry| (entry == wanted).then_some((bucket, at)))
        else {
            return;
        };
        shard.remove(spot, bucket, at);
        if self.twice > 0 && self.find(name, is).is_some() {
            self.twice -= 1;
        }
    }
}
