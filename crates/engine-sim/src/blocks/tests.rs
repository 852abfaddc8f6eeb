use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{BlockHash, BlockPool};

#[test]
fn the_block_that_was_free_the_longest_goes_first() {
    let mut pool = BlockPool::new(3, true);
    let taken: Vec<u32> = (0..3).map(|_| pool.allocate().unwrap()).collect();
    assert_eq!(pool.allocate(), None);
    for (&block, hash) in taken.iter().zip(10..) {
        pool.cache(block, BlockHash(hash));
    }
    for block in [taken[1], taken[0], taken[2]] {
        pool.release(block);
    }
    // A use in between moves the oldest to the end.
    let found = pool.find(BlockHash(11)).unwrap();
    pool.share(found);
    pool.release(found);
    let order: Vec<u32> = (0..3).map(|_| pool.allocate().unwrap()).collect();
    assert_eq!(order, [taken[0], taken[2], taken[1]]);
    assert_eq!(pool.take_removed(), [10, 12, 11].map(BlockHash));
    assert_eq!(pool.cached(), 0);
}

#[test]
fn a_block_without_content_goes_before_a_cached_one() {
    let mut pool = BlockPool::new(2, false);
    let (one, two) = (pool.allocate().unwrap(), pool.allocate().unwrap());
    pool.cache(one, BlockHash(1));
    pool.release(one);
    pool.release(two);
    assert_eq!(pool.allocate(), Some(two));
    assert!(pool.find(BlockHash(1)).is_some());
}

#[test]
fn equal_content_is_cached_again_and_its_oldest_copy_is_found() {
    let mut pool = BlockPool::new(3, true);
    let copies: Vec<u32> = (0..3).map(|_| pool.allocate().unwrap()).collect();
    for &block in &copies {
        pool.cache(block, BlockHash(1));
    }
    for (evicted, found) in [(copies[1], Some(copies[0])), (copies[0], Some(copies[2])), (copies[2], None)] {
        pool.release(evicted);
        assert_eq!(pool.allocate(), Some(evicted), "the only free block");
        assert_eq!(pool.take_removed(), [BlockHash(1)], "each copy goes by itself");
        assert_eq!(pool.find(BlockHash(1)), found);
    }
    pool.cache(copies[1], BlockHash(1));
    assert_eq!(pool.find(BlockHash(1)), Some(copies[1]), "a copy after all others went");
}

#[test]
fn a_pool_in_use_is_not_cleared() {
    let mut pool = BlockPool::new(2, true);
    let block = pool.allocate().unwrap();
    pool.cache(block, BlockHash(1));
    assert!(!pool.clear());
    assert!(pool.find(BlockHash(1)).is_some());
    pool.release(block);
    assert!(pool.clear());
    assert_eq!((pool.find(BlockHash(1)), pool.free()), (None, 2));
    pool.allocate().unwrap();
    assert_eq!(pool.take_removed(), []);
}

#[derive(Debug, Clone)]
enum Move {
    Allocate { hash: u64 },
    Share { hash: u64 },
    Release { which: usize },
    Clear,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let step = prop_oneof![
        4 => (0u64..12).prop_map(|hash| Move::Allocate { hash }),
        3 => (0u64..12).prop_map(|hash| Move::Share { hash }),
        4 => (0usize..16).prop_map(|which| Move::Release { which }),
        1 => Just(Move::Clear),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Against a model that only knows who holds what and what was evicted.
    #[test]
    fn references_free_counts_and_the_cache_agree(moves in moves()) {
        let mut pool = BlockPool::new(6, true);
        let mut held: Vec<u32> = Vec::new();
        // The copies of each hash, oldest first.
        let mut cached: BTreeMap<BlockHash, Vec<u32>> = BTreeMap::new();
        for step in moves {
            match step {
                Move::Allocate { hash } => {
                    let block = pool.allocate();
                    prop_assert_eq!(block.is_some(), pool_free(&held) > 0);
                    let of = cached.iter().find(|(_, copies)| copies.iter().any(|&copy| Some(copy) == block));
                    let of = of.map(|(hash, _)| *hash);
                    prop_assert_eq!(pool.take_removed(), Vec::from_iter(of));
                    if let Some(copies) = of.and_then(|hash| cached.get_mut(&hash)) {
                        copies.retain(|&copy| Some(copy) != block);
                    }
                    cached.retain(|_, copies| !copies.is_empty());
                    if let Some(block) = block {
                        prop_assert!(!held.contains(&block));
                        held.push(block);
                        pool.cache(block, BlockHash(hash));
                        cached.entry(BlockHash(hash)).or_default().push(block);
                    }
                }
                Move::Share { hash } => {
                    let found = pool.find(BlockHash(hash));
                    prop_assert_eq!(found, cached.get(&BlockHash(hash)).map(|copies| copies[0]));
                    if let Some(block) = found {
                        pool.share(block);
                        held.push(block);
                    }
                }
                Move::Release { which } => {
                    if !held.is_empty() {
                        let block = held.remove(which % held.len());
                        pool.release(block);
                    }
                }
                Move::Clear => {
                    prop_assert_eq!(pool.clear(), held.is_empty());
                    if held.is_empty() {
                        cached.clear();
                    }
                }
            }
            prop_assert_eq!(pool.free(), pool_free(&held));
            prop_assert_eq!(pool.cached() as usize, cached.len());
            for (&hash, copies) in &cached {
                prop_assert_eq!(pool.find(hash), Some(copies[0]));
            }
        }
    }
}

/// Free blocks of a pool of six, by what is held.
fn pool_free(held: &[u32]) -> u32 {
    let distinct: std::collections::BTreeSet<_> = held.iter().collect();
    6 - distinct.len() as u32
}
