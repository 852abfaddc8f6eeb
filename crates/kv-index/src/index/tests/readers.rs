//! Look-ups beside a busy writer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{Random, blocks, chain, found, names};
use crate::index::{Block, Holder, Index, IndexConfig};

/// Small chunks, so that space is given back and compacted all the time.
const SMALL_CHUNKS: IndexConfig = IndexConfig { bytes_max: 24 << 20 };
const PATHS: usize = 12;
const DEPTH: usize = 96;

/// A prefix that several paths share, then blocks of their own.
fn path(number: usize) -> Vec<u64> {
    chain(&(0..DEPTH as u64).map(|at| if at < 40 { 0 } else { number as u64 }).collect::<Vec<_>>())
}

/// Splits, holes, merges, growth and moves around the blocks that `steady` keeps.
fn churn(index: &Index, restless: &[Holder], operations: usize) {
    let mut random = Random::new(9);
    for _ in 0..operations {
        let holder = restless[random.index(restless.len())];
        let path = path(random.index(PATHS));
        let from = random.index(DEPTH);
        let to = from + 1 + random.index(DEPTH - from);
        match random.index(20) {
            0 => index.clear(holder),
            1..=8 => {
                let parent = (from > 0).then(|| names(&path)[from - 1]);
                // Near the end of a path a parent may be known to nobody.
                let stored = index.store(holder, parent, &blocks(&path)[from..to]);
                assert!(stored.is_ok() || from > DEPTH - PATHS);
            }
            9..=11 => {
                // Blocks that nobody else has, to move others around.
                let mut own: Vec<u64> = (0..30 + random.index(200) as u64).collect();
                own[0] = random.next() >> 1;
                let own: Vec<Block> = blocks(&chain(&own));
                assert_eq!(index.store(holder, None, &own), Ok(()));
            }
            _ => index.remove(holder, &names(&path)[from..to]),
        }
    }
}

/// Ends the readers, also when the writer panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_look_up_beside_a_busy_writer_never_misses_a_block_that_stays() {
    let index = Index::new(SMALL_CHUNKS);
    let steady = index.add_holder();
    let restless: Vec<Holder> = (0..5).map(|_| index.add_holder()).collect();
    for number in 0..PATHS {
        let keep = DEPTH - number;
        index.store(steady, None, &blocks(&path(number))[..keep]).unwrap();
    }
    let done = AtomicBool::new(false);
    let read = || {
        let mut random = Random::new(3);
        let mut reads = 0u64;
        while !done.load(Ordering::Relaxed) {
            let number = random.index(PATHS);
            let path = path(number);
            let seen = found(&index, &path);
            let of_steady = seen.iter().filter(|seen| seen.0 == steady).map(|seen| seen.1 as usize);
            assert_eq!(of_steady.collect::<Vec<_>>(), [DEPTH - number], "reported once, and all of it");
            let mut holders: Vec<Holder> = seen.iter().map(|seen| seen.0).collect();
            holders.dedup();
            assert_eq!(holders.len(), seen.len(), "every holder once");
            let from = random.index(DEPTH - PATHS);
            assert_eq!(index.run_from(steady, &path, from), DEPTH - number - from);
            reads += 1;
        }
        reads
    };
    thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let stop = Stop(&done);
        churn(&index, &restless, 30_000);
        drop(stop);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    index.audit();
}
