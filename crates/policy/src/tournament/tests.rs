use proptest::prelude::*;

use super::*;

fn key(load: u64, slot: u32) -> Key {
    Key::new(load, slot)
}

#[test]
fn the_least_load_wins_and_ties_go_by_order() {
    let tournament = Tournament::new([key(5, 0), key(3, 1), key(3, 2)].map(Some).into_iter());
    assert_eq!(tournament.least(None, |_| true), Some(key(3, 1)));
    assert_eq!(tournament.least(None, |slot| slot != 1), Some(key(3, 2)));
    assert_eq!(tournament.least(None, |_| false), None);
    assert_eq!(tournament.least(Some(key(3, 1)), |_| true), None);
}

#[test]
fn a_key_keeps_its_load_and_its_place_apart() {
    for (load, place) in [(0, 0), (1, u32::MAX), (u64::MAX / 2, 7)] {
        let key = key(load, place);
        assert_eq!((key.value(), key.order()), (load, place));
    }
}

#[test]
fn an_empty_tournament_has_no_winner() {
    assert_eq!(Tournament::default().least(None, |_| true), None);
    assert_eq!(Tournament::new(std::iter::empty()).least(None, |_| true), None);
    assert_eq!(Tournament::new([None].into_iter()).least(None, |_| true), None);
}

proptest! {
    #[test]
    fn the_winner_is_what_a_scan_finds(
        start in prop::collection::vec(prop::option::of(0u64..8), 1..40),
        changes in prop::collection::vec((0usize..40, prop::option::of(0u64..8)), 0..60),
        refused in prop::collection::vec(any::<bool>(), 40),
        bound in prop::option::of(0u64..8),
    ) {
        let mut loads = start;
        let keys = |loads: &[Option<u64>]| -> Vec<Option<Key>> {
            loads.iter().enumerate().map(|(slot, load)| load.map(|load| key(load, slot as u32))).collect()
        };
        let mut tournament = Tournament::new(keys(&loads).into_iter());
        for (place, load) in changes {
            let place = place % loads.len();
            loads[place] = load;
            tournament.set(place as u32, load.map(|load| key(load, place as u32)));
        }
        let below = bound.map(|load| key(load, 0));
        let scanned = keys(&loads)
            .into_iter()
            .flatten()
            .filter(|key| !refused[key.order() as usize] && below.is_none_or(|below| *key < below))
            .min();
        prop_assert_eq!(tournament.least(below, |slot| !refused[slot as usize]), scanned);
    }
}
