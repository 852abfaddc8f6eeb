use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Chained hashes of letters: equal at a position only after equal beginnings.
fn chain(letters: &str) -> Arc<[u64]> {
    let hashes = letters.bytes().scan(7u64, |state, letter| {
        *state = (*state ^ u64::from(letter)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        Some(*state)
    });
    hashes.collect()
}

fn found(predicted: &Predicted, letters: &str) -> BTreeMap<u32, u32> {
    let mut found = BTreeMap::new();
    predicted.find(&chain(letters), |slot, blocks| {
        let most = found.entry(slot).or_insert(0);
        *most = blocks.max(*most);
    });
    found
}

#[test]
fn a_prompt_is_expected_from_dispatch_until_its_events_had_time_to_come() {
    let mut predicted = Predicted::new(8);
    let id = predicted.insert(3, &chain("abcd")).unwrap();
    assert_eq!(found(&predicted, "abxy"), [(3, 2)].into());
    predicted.settle(id, Duration::from_secs(2));
    predicted.expire(Duration::from_millis(1999));
    assert_eq!(found(&predicted, "abcde"), [(3, 4)].into());
    predicted.expire(Duration::from_secs(2));
    assert_eq!(found(&predicted, "abcd"), [].into());
    assert!(predicted.heads.is_empty());
}

#[test]
fn no_more_prompts_are_expected_than_may_be() {
    let mut predicted = Predicted::new(2);
    let first = predicted.insert(0, &chain("a")).unwrap();
    assert!(predicted.insert(0, &chain("b")).is_some());
    assert!(predicted.insert(0, &chain("c")).is_none());
    assert_eq!((predicted.len(), predicted.refused), (2, 1));
    predicted.remove(first);
    predicted.remove(first);
    assert_eq!(predicted.len(), 1);
    assert!(predicted.insert(0, &chain("c")).is_some());
}

#[test]
fn a_look_up_reports_a_bounded_number_of_slots_longest_prefix_first() {
    let mut predicted = Predicted::new(1000);
    for slot in 0..200 {
        predicted.insert(slot, &chain("a"));
    }
    predicted.insert(199, &chain("abc"));
    let found = found(&predicted, "abc");
    assert_eq!(found[&199], 3);
    assert!(found.len() <= SLOTS_MAX);
}

#[test]
fn partings_that_are_over_do_not_pile_up() {
    let mut predicted = Predicted::new(1000);
    let long: String = "abcdefghij".repeat(10);
    predicted.insert(0, &chain(&long));
    for length in 1..100 {
        let id = predicted.insert(1, &chain(&format!("{}!", &long[..length]))).unwrap();
        predicted.remove(id);
    }
    assert_eq!(predicted.heads.len(), 1);
    assert_eq!(predicted.nodes.iter().flatten().count(), 1);
}

#[derive(Debug, Clone)]
enum Change {
    Insert(u32, String),
    Remove(usize),
    RemoveSlot(u32),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0u32..4, "[ab]{0,7}").prop_map(|(slot, letters)| Change::Insert(slot, letters)),
        3 => any::<usize>().prop_map(Change::Remove),
        1 => (0u32..4).prop_map(Change::RemoveSlot),
    ]
}

proptest! {
    #[test]
    fn what_is_found_equals_a_list_of_prompts(changes in prop::collection::vec(change(), 0..60)) {
        let mut predicted = Predicted::new(20);
        let mut list: Vec<(EntryId, u32, String)> = Vec::new();
        for change in changes {
            match change {
                Change::Insert(slot, letters) => {
                    let id = predicted.insert(slot, &chain(&letters));
                    prop_assert_eq!(id.is_some(), !letters.is_empty() && list.len() < 20);
                    list.extend(id.map(|id| (id, slot, letters)));
                }
                Change::Remove(at) if !list.is_empty() => {
                    let (id, ..) = list.remove(at % list.len());
                    predicted.remove(id);
                }
                Change::Remove(_) => {}
                Change::RemoveSlot(slot) => {
                    list.retain(|entry| entry.1 != slot);
                    predicted.remove_slot(slot);
                }
            }
            prop_assert_eq!(predicted.len(), list.len());
            for query in ["a", "b", "ab", "aabb", "abab", "bbbbbbb", "abbabba"] {
                let mut expected = BTreeMap::new();
                for (_, slot, letters) in &list {
                    let common = letters.bytes().zip(query.bytes()).take_while(|(a, b)| a == b).count() as u32;
                    if common > 0 {
                        let most = expected.entry(*slot).or_insert(0);
                        *most = common.max(*most);
                    }
                }
                prop_assert_eq!(found(&predicted, query), expected);
            }
            let nodes = predicted.nodes.iter().flatten().count();
            prop_assert_eq!(nodes, predicted.heads.len());
            prop_assert!(nodes <= 2 * list.len());
        }
        for (id, ..) in list {
            predicted.remove(id);
        }
        prop_assert!(predicted.heads.is_empty());
    }
}
