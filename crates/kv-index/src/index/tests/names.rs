//! The table of names against a map, with names that all want the same few buckets.

use std::collections::BTreeMap;

use super::Random;
use crate::index::budget::Budget;
use crate::index::names::{Names, Place, Refused};

/// The factor that undoes the one names are spread with: `spread` of the result is what was asked for.
fn name_of_spread(spread: u64) -> u64 {
    let mix = 0x9E37_79B9_7F4A_7C15_u64;
    // Newton's iteration doubles the right low bits, of which an odd number has three to begin with.
    let inverse =
        (0..5).fold(mix, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(mix.wrapping_mul(inverse))));
    spread.wrapping_mul(inverse)
}

struct Table {
    names: Names,
    budget: Budget,
    /// What must be in it.
    places: BTreeMap<u64, Place>,
    named: BTreeMap<u32, u64>,
}

impl Table {
    fn new() -> Self {
        Self {
            names: Names::new(1),
            budget: Budget::new(1 << 30),
            places: BTreeMap::new(),
            named: BTreeMap::new(),
        }
    }

    fn insert(&mut self, name: u64, extent: u32) {
        let place = Place { extent, offset: extent % 4096 };
        let named = &self.named;
        let is = |other: Place| named.get(&other.extent) == Some(&name);
        let added = self.names.insert_new(self.names.spot(name), place, is, &mut self.budget);
        let refused = matches!(added, Err(Refused::Taken));
        assert_eq!(refused, self.places.contains_key(&name), "{name:x} is added if it is new");
        if !refused {
            self.places.insert(name, place);
            self.named.insert(extent, name);
        }
    }

    fn remove(&mut self, name: u64) {
        if let Some(place) = self.places.remove(&name) {
            self.names.remove(name, place, |_| panic!("no name has two places"));
            self.named.remove(&place.extent);
        }
    }

    fn check(&self, name: u64) {
        let is = |other: Place| self.named.get(&other.extent) == Some(&name);
        assert_eq!(self.names.find(name, is), self.places.get(&name).copied(), "place of {name:x}");
    }
}

fn check(seed: u64, names: u64, spread_of: impl Fn(u64) -> u64) {
    let mut random = Random::new(seed);
    let mut table = Table::new();
    let named = |at: u64| name_of_spread(spread_of(at));
    for extent in 1..6000 {
        // Mostly in for the first half, mostly out for the second.
        let name = named(random.next() % names);
        if random.percent(if extent < 3000 { 80 } else { 20 }) {
            table.insert(name, extent);
        } else {
            table.remove(name);
        }
        table.check(name);
        table.check(named(random.next() % names));
    }
    for at in 0..names {
        table.check(named(at));
        table.remove(named(at));
    }
    assert!((0..names).all(|at| table.names.find(named(at), |_| true).is_none()), "nothing is left");
}

#[test]
fn spread_names_are_found_while_they_are_there() {
    check(1, 3000, |at| Random::new(at).next());
}

#[test]
fn names_that_all_belong_in_one_bucket_are_found_while_they_are_there() {
    // More than a bucket can count, and they differ only in bits that choose no bucket.
    check(2, 2000, |at| at << 31);
}

#[test]
fn names_that_differ_in_no_kept_bit_are_found_while_they_are_there() {
    check(3, 400, |at| at << 2);
}

#[test]
fn names_at_both_ends_of_a_shard_go_round_it() {
    check(4, 600, |at| if at % 2 == 0 { at << 31 } else { (u64::MAX >> 1) ^ (at << 31) });
}
