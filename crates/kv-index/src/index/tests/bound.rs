//! The byte bound, and that memory does not grow at a constant size.

use super::{Random, blocks, chain, chain_after, found, names};
use crate::index::{BYTES_MIN, Holder, Index, IndexConfig};

/// A sequence of `len` blocks that no other number has.
fn sequence(number: u64, len: usize) -> Vec<u64> {
    let mut tokens = vec![number + 10];
    tokens.resize(len, 0);
    chain(&tokens)
}

#[test]
fn the_bound_is_kept_and_who_lost_blocks_is_told() {
    for bytes_max in [0, BYTES_MIN, 3 << 20] {
        let index = Index::new(IndexConfig { bytes_max });
        let bound = bytes_max.max(BYTES_MIN);
        let holders: Vec<Holder> = (0..100).map(|_| index.add_holder()).collect();
        let mut random = Random::new(bytes_max as u64);
        for number in 0..3000 {
            let holder = holders[random.index(100)];
            let path = sequence(number / 2, 1 + random.index(200));
            index.store(holder, None, &blocks(&path)).unwrap();
            assert!(index.stats().bytes <= bound, "{} of {bound}", index.stats().bytes);
        }
        index.audit();
        let stats = index.stats();
        assert!(stats.evicted > 0 && stats.blocks > bound as u64 / 200, "{stats:?}");
        let evicted = index.take_evicted();
        assert!(!evicted.is_empty() && evicted.len() <= 100);
        assert_eq!(index.take_evicted(), [], "told once");
    }
}

#[test]
fn what_is_used_stays_when_the_bound_is_reached() {
    let index = Index::new(IndexConfig { bytes_max: 2 << 20 });
    let (hot, cold) = (index.add_holder(), index.add_holder());
    let path = sequence(0, 100);
    index.store(hot, None, &blocks(&path)).unwrap();
    for number in 1..2000 {
        index.store(cold, None, &blocks(&sequence(number, 100))).unwrap();
        assert_eq!(found(&index, &path), [(hot, 100)]);
    }
    assert!(index.stats().evicted > 0);
    assert_eq!(index.take_evicted(), [cold]);
}

#[test]
fn holders_with_names_of_their_own_keep_the_bound_too() {
    let index = Index::new(IndexConfig { bytes_max: 2 << 20 });
    let (shared, own) = (index.add_holder(), index.add_holder());
    for number in 0..1500 {
        let path = sequence(number, 60);
        let mut renamed = blocks(&path);
        for block in &mut renamed {
            block.engine ^= 1;
        }
        index.store(shared, None, &blocks(&path[..30])).unwrap();
        index.store(own, None, &renamed).unwrap();
        assert!(index.stats().bytes <= 2 << 20);
    }
    assert!(index.stats().evicted > 0);
    index.audit();
}

#[test]
fn a_store_that_can_never_fit_is_cut_and_told() {
    let index = Index::new(IndexConfig { bytes_max: BYTES_MIN });
    let holder = index.add_holder();
    let path = sequence(0, 60_000);
    index.store(holder, None, &blocks(&path)).unwrap();
    assert!(index.stats().bytes <= BYTES_MIN);
    assert_eq!(index.take_evicted(), [holder]);
    index.audit();
}

/// Fills an index with `live` sequences, then replaces them one by one, the oldest or a random one, from either end.
fn churned(live: usize, replaced: usize) -> (usize, usize) {
    let index = Index::new(IndexConfig { bytes_max: 256 << 20 });
    let holders: Vec<Holder> = (0..8).map(|_| index.add_holder()).collect();
    let mut random = Random::new(5);
    let mut world: Vec<(Holder, Vec<u64>)> = Vec::new();
    let mut fresh = 0;
    for number in 0..live + replaced {
        let path = sequence(number as u64, 20 + random.index(100));
        let holder = holders[random.index(8)];
        let all = blocks(&path);
        for from in (0..all.len()).step_by(16) {
            let parent = from.checked_sub(1).map(|parent| all[parent].engine);
            index.store(holder, parent, &all[from..all.len().min(from + 16)]).unwrap();
        }
        if world.len() < live {
            world.push((holder, path));
        } else {
            let at = random.index(live);
            let (holder, path) = std::mem::replace(&mut world[at], (holder, path));
            let mut gone = names(&path);
            if random.percent(50) {
                gone.reverse();
            }
            for gone in gone.chunks(16) {
                index.remove(holder, gone);
            }
        }
        if number == live {
            fresh = index.stats().bytes;
        }
    }
    index.audit();
    (fresh, index.stats().bytes)
}

#[test]
fn memory_stays_when_blocks_come_and_go() {
    let (fresh, after) = churned(2000, 20_000);
    assert!(after * 10 <= fresh * 13, "{after} bytes after churn, {fresh} before");
}

#[test]
fn many_holders_under_a_small_bound_leave_room_for_blocks() {
    let bytes_max = BYTES_MIN;
    let index = Index::new(IndexConfig { bytes_max });
    let holders: Vec<Holder> = (0..1000).map(|_| index.add_holder()).collect();
    let mut random = Random::new(1);
    let mut paths: Vec<Vec<u64>> = vec![vec![]];
    for step in 0..40_000 {
        // Prompts that part and go on, so that runs are split and joined all the time.
        let mut path = paths[random.index(paths.len())].clone();
        path.truncate(random.index(path.len() + 1));
        let holder = holders[random.index(holders.len())];
        if random.percent(50) {
            let mut parent = path.last().copied().unwrap_or(0);
            for _ in 0..=random.index(100) {
                let token = if random.percent(90) { 0 } else { random.next() % 40 };
                parent = chain_after(parent, token);
                path.push(parent);
            }
            index.store(holder, None, &blocks(&path)).expect("it begins a sequence");
            let at = random.index(150);
            if at < paths.len() { paths[at] = path } else { paths.push(path) }
        } else if !path.is_empty() {
            let name = names(&path[random.index(path.len())..][..1]);
            index.remove(holder, &name);
        }
        if step % 1000 == 0 {
            index.take_evicted();
            index.audit();
        }
    }
    let stats = index.stats();
    assert!(stats.bytes <= bytes_max && stats.evicted > 0, "{stats:?}");
    assert!(stats.blocks > 5_000, "the bound is for blocks: {stats:?}");
}
