use proptest::prelude::*;

use super::Matched;
use crate::input::DataSet;

/// A data set of prompts of these lengths, each with its number of output tokens.
fn set(lengths: &[(usize, Option<u32>)]) -> DataSet {
    let file = tempfile::NamedTempFile::new().unwrap();
    let row = |&(prompt, output): &(usize, Option<u32>)| {
        format!("{}\n", serde_json::json!({ "token_ids": vec![1; prompt], "output_tokens": output }))
    };
    std::fs::write(file.path(), lengths.iter().map(row).collect::<String>()).unwrap();
    DataSet::read(file.path()).unwrap()
}

/// The lines by place, those of each target together, and how many places differ in lengths.
fn dealt(lengths: &[(usize, Option<u32>)], targets: usize) -> (Vec<Vec<u64>>, u64) {
    let matched = Matched::new(&set(lengths), targets);
    let at = |place| (0..targets).map(|target| matched.order(target, place).line(0)).collect();
    ((0..matched.places()).map(at).collect(), matched.unequal)
}

#[test]
fn targets_get_lines_of_equal_lengths_in_the_order_of_the_file() {
    let (short, long, asked) = ((1, None), (5, None), (5, Some(3)));
    for (lengths, places, unequal) in [
        (&[short, long, long, short][..], vec![[0, 3], [1, 2]], 0),
        (&[long, short, asked, asked, short, long, short], vec![[0, 5], [1, 4], [2, 3]], 0),
        (&[asked, long, short, short], vec![[1, 0], [2, 3]], 1),
        (&[(9, None), (2, None), (8, None), (1, None)], vec![[3, 1], [2, 0]].into_iter().rev().collect(), 2),
        (&[short], vec![[0, 0]], 1),
    ] {
        let places: Vec<_> = places.iter().map(|place| place.to_vec()).collect();
        assert_eq!(dealt(lengths, 2), (places, unequal), "{lengths:?}");
    }
}

#[test]
fn an_order_begins_at_its_place_and_comes_round() {
    let matched = Matched::new(&set(&[(1, None); 6]), 2);
    let order = matched.order(1, 2);
    assert_eq!((0..4).map(|number| order.line(number)).collect::<Vec<_>>(), [5, 1, 3, 5]);
    assert_eq!(super::LineOrder::FILE.line(7), 7);
}

proptest! {
    #[test]
    fn no_line_is_dealt_twice_and_fewer_than_the_targets_are_left(
        lengths in prop::collection::vec((1_usize..4, prop::option::of(1_u32..3)), 1..40),
        targets in 1_usize..5,
    ) {
        prop_assume!(lengths.len() >= targets);
        let (places, unequal) = dealt(&lengths, targets);
        let mut lines: Vec<_> = places.concat();
        lines.sort_unstable();
        lines.dedup();
        prop_assert_eq!(lines.len(), lengths.len() / targets * targets);
        let differ = |place: &&Vec<u64>| place.iter().any(|&line| lengths[line as usize] != lengths[place[0] as usize]);
        prop_assert!(places.iter().filter(differ).count() as u64 <= unequal);
    }
}
