//! Holes, splits, merges and who is found afterwards, as short scripts.

use super::{ROOMY, blocks, chain, found, names};
use crate::index::{Block, Holder, Index, UnknownParent};

/// A script over one path of 24 blocks: `a+0..8` stores, `a-3..5` removes, `a<8..3` removes from the back, `a!`
/// clears. Then who has how many leading blocks (`a8 b3`), and the numbers of runs and blocks.
#[track_caller]
fn check(script: &str, found_after: &str, runs: usize, distinct: u64) {
    let index = Index::new(ROOMY);
    let holders: Vec<Holder> = (0..6).map(|_| index.add_holder()).collect();
    let path = chain(&[0; 24]);
    let (all, names) = (blocks(&path), names(&path));
    for step in script.split_whitespace() {
        let holder = holders[(step.as_bytes()[0] - b'a') as usize];
        let range = |text: &str| {
            let (from, to) = text.split_once("..").unwrap();
            (from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap())
        };
        match step.split_at(1).1.split_at(1) {
            ("!", _) => index.clear(holder),
            ("+", text) => {
                let (from, to) = range(text);
                let parent = from.checked_sub(1).map(|parent| names[parent]);
                index.store(holder, parent, &all[from..to]).unwrap();
            }
            ("-", text) => index.remove(holder, &names[range(text).0..range(text).1]),
            ("<", text) => {
                let (to, from) = range(text);
                let backwards: Vec<u64> = names[from..to].iter().rev().copied().collect();
                index.remove(holder, &backwards);
            }
            other => panic!("no such step: {other:?}"),
        }
        index.audit();
    }
    let seen: Vec<String> = found(&index, &path)
        .into_iter()
        .map(|(holder, blocks)| {
            let at = holders.iter().position(|&other| other == holder).unwrap();
            format!("{}{blocks}", char::from(b'a' + at as u8))
        })
        .collect();
    let stats = index.stats();
    assert_eq!(
        (seen.join(" ").as_str(), stats.runs, stats.blocks),
        (found_after, runs, distinct),
        "{script}"
    );
}

#[test]
fn chunks_of_one_sequence_become_one_run() {
    check("a+0..8 a+8..16 a+16..17 a+17..24", "a24", 1, 24);
}

#[test]
fn a_second_holder_joins_without_new_blocks() {
    check("a+0..24 b+0..24", "a24 b24", 1, 24);
    check("a+0..24 b+0..7", "a24 b7", 1, 24);
}

#[test]
fn many_holders_of_one_prefix_make_it_a_run() {
    check("a+0..24 b+0..7 c+0..7 d+0..7", "a24 b7 c7 d7", 1, 24);
    check("a+0..24 b+0..7 c+0..7 d+0..7 e+0..7 f+0..7", "a24 b7 c7 d7 e7 f7", 2, 24);
}

#[test]
fn a_hole_ends_the_match_and_later_blocks_stay() {
    check("a+0..24 a-5..7", "a5", 2, 22);
    check("a+0..24 b+0..24 a-5..7", "a5 b24", 2, 24);
}

#[test]
fn a_refilled_hole_is_one_run_again() {
    check("a+0..24 b+0..24 a-5..7 a+5..7", "a24 b24", 1, 24);
}

#[test]
fn both_orders_of_eviction_leave_what_is_held() {
    check("a+0..24 a<24..10", "a10", 1, 10);
    check("a+0..24 a-0..10", "", 1, 24);
    check("a+0..24 a-0..20", "", 1, 4);
    check("a+0..24 b+0..24 a-0..10", "b24", 1, 24);
    check("a+0..24 a-0..10 a+0..10", "a24", 1, 24);
    check("a+0..24 a-0..24", "", 0, 0);
}

#[test]
fn what_the_last_holder_leaves_is_freed() {
    check("a+0..24 b+0..8 a!", "b8", 1, 8);
    check("a+0..24 b+0..8 a! b!", "", 0, 0);
}

#[test]
fn blocks_on_a_parent_that_was_lost_are_stored_while_its_name_is_known() {
    check("a+0..8 b+0..8 a<8..7 a+8..12", "a7 b8", 2, 12);
}

#[test]
fn an_unknown_parent_is_refused() {
    let index = Index::new(ROOMY);
    let holder = index.add_holder();
    let path = chain(&[0, 1]);
    let child = &blocks(&path)[1..];
    assert_eq!(index.store(holder, Some(names(&path)[0]), child), Err(UnknownParent));
    assert_eq!(index.chain_of(holder, names(&path)[0]), None);
    index.store(holder, None, &blocks(&path)[..1]).unwrap();
    assert_eq!(index.chain_of(holder, names(&path)[0]), Some(path[0]));
    assert_eq!(index.store(holder, Some(names(&path)[0]), child), Ok(()));
    assert_eq!(found(&index, &path), [(holder, 2)]);
}

#[test]
fn an_engine_with_names_of_its_own_is_counted_until_it_is_empty() {
    let index = Index::new(ROOMY);
    let (first, second) = (index.add_holder(), index.add_holder());
    let tier = index.add_holder_beside(second);
    let path = chain(&[0; 10]);
    let own: Vec<Block> = path.iter().map(|&chain| Block { chain, engine: chain ^ 1 }).collect();
    index.store(first, None, &blocks(&path)).unwrap();
    index.store(second, None, &own).unwrap();
    index.store(tier, Some(own[4].engine), &own[5..7]).unwrap();
    let stats = index.stats();
    assert_eq!((stats.domains, stats.private_holders, stats.blocks, stats.memberships), (2, 2, 10, 22));
    index.remove(second, &names(&path));
    assert_eq!(found(&index, &path), [(first, 10), (second, 10)], "another engine's names mean nothing");
    index.remove(second, &[own[5].engine]);
    assert_eq!(index.run_from(tier, &path, 5), 2, "the other tier keeps its copy");
    index.remove_holder(second);
    index.clear(tier);
    assert_eq!((index.stats().domains, index.blocks(first)), (1, 10));
    index.audit();
}

#[test]
fn one_name_for_two_blocks_means_the_newer_one() {
    let index = Index::new(ROOMY);
    let (first, second) = (index.add_holder(), index.add_holder());
    let (old, new) = (chain(&[1; 6]), chain(&[2; 6]));
    let renamed: Vec<Block> =
        new.iter().zip(names(&old)).map(|(&chain, engine)| Block { chain, engine }).collect();
    index.store(first, None, &blocks(&old)).unwrap();
    index.store(second, None, &blocks(&old)).unwrap();
    index.store(first, None, &renamed).unwrap();
    assert_eq!(found(&index, &old), [(second, 6)], "the reloaded engine lost what it called so before");
    assert_eq!(found(&index, &new), [(first, 6)]);
    index.remove(second, &names(&old)[3..]);
    assert_eq!((found(&index, &old), found(&index, &new)), (vec![(second, 3)], vec![(first, 6)]));
    index.audit();
}

#[test]
fn numbers_of_removed_holders_are_used_again() {
    let index = Index::new(ROOMY);
    let holders: Vec<Holder> = (0..300).map(|_| index.add_holder()).collect();
    let path = chain(&[0; 5]);
    for &holder in &holders {
        index.store(holder, None, &blocks(&path)).unwrap();
    }
    assert_eq!(found(&index, &path).len(), 300);
    index.remove_holder(holders[7]);
    assert_eq!(found(&index, &path).len(), 299);
    assert_eq!(index.add_holder(), holders[7]);
    assert_eq!(index.blocks(holders[7]), 0);
    index.remove_holder(holders[8]);
    assert_eq!(index.store(holders[8], None, &blocks(&path)), Ok(()), "a removed holder holds nothing");
    assert_eq!(found(&index, &path).len(), 298);
    index.audit();
}
