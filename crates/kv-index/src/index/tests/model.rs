//! The sequence lock and the orders that walks rely on, under every schedule of few preemptions (loom).

use std::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;

use crate::index::budget::Budget;
use crate::index::heads::{Heads, Probe, tag};
use crate::index::seq::{Word, read_begin, unchanged, write};

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    /// As a change: loom remembers one access of a word, and a load by the writer would make it forget the reader's
    /// before, and never try the writer's next store before that one.
    fn own(&self) -> u64 {
        self.fetch_add(0, Ordering::Relaxed)
    }

    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }

    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Times a schedule takes the processor from a thread that could go on: more find nothing in two short threads.
const PREEMPTIONS_MAX: usize = 4;

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(model);
}

fn get(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

fn put(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

#[test]
fn a_copy_that_is_accepted_is_of_one_moment() {
    explore(|| {
        let run = Arc::new([AtomicU64::new(0), AtomicU64::new(1), AtomicU64::new(1)]);
        let writer = Arc::clone(&run);
        let thread = thread::spawn(move || {
            for value in 2..4 {
                write(&writer[0], || {
                    put(&writer[1], value);
                    put(&writer[2], value);
                });
            }
        });
        if let Some(began) = read_begin(&run[0]) {
            let copy = (get(&run[1]), get(&run[2]));
            if unchanged(&run[0], began) {
                assert_eq!(copy.0, copy.1, "both words are of one state");
            }
        }
        thread.join().unwrap();
    });
}

/// Two runs and the space that first the one and then the other has.
struct Reuse {
    first_seq: AtomicU64,
    first_len: AtomicU64,
    second_seq: AtomicU64,
    space: AtomicU64,
}

#[test]
fn space_that_went_to_another_run_is_not_taken_for_the_old_one() {
    explore(|| {
        let runs = Arc::new(Reuse {
            first_seq: AtomicU64::new(0),
            first_len: AtomicU64::new(1),
            second_seq: AtomicU64::new(0),
            space: AtomicU64::new(7),
        });
        let writer = Arc::clone(&runs);
        let thread = thread::spawn(move || {
            write(&writer.first_seq, || put(&writer.first_len, 0));
            // As new blocks are written: before the run that gets them is published.
            fence(Ordering::Release);
            put(&writer.space, 8);
            write(&writer.second_seq, || {});
        });
        if let Some(began) = read_begin(&runs.first_seq) {
            let (len, block) = (get(&runs.first_len), get(&runs.space));
            if unchanged(&runs.first_seq, began) && len == 1 {
                assert_eq!(block, 7, "the first run still had its block");
            }
        }
        thread.join().unwrap();
    });
}

/// A run that begins with block 0, a run that begins with block 1, and whether the look-up knows the second.
struct Pair {
    left_seq: AtomicU64,
    left_len: AtomicU64,
    right_seq: AtomicU64,
    right_len: AtomicU64,
    head: AtomicU64,
}

impl Pair {
    fn new(left: u64, right: u64) -> Arc<Self> {
        Arc::new(Self {
            left_seq: AtomicU64::new(0),
            left_len: AtomicU64::new(left),
            right_seq: AtomicU64::new(0),
            right_len: AtomicU64::new(right),
            head: AtomicU64::new(u64::from(right > 0)),
        })
    }

    fn read(seq: &AtomicU64, len: &AtomicU64) -> Option<(u64, u64)> {
        let began = read_begin(seq)?;
        let len = get(len);
        unchanged(seq, began).then_some((began, len))
    }

    /// How many of two blocks a walk finds, as `find` does it; `None` when it would have to ask again.
    fn walk(&self) -> Option<u64> {
        let (began, len) = Self::read(&self.left_seq, &self.left_len)?;
        if len == 2 {
            return Some(2);
        }
        if self.head.load(Ordering::Acquire) == 1 {
            let (_, right) = Self::read(&self.right_seq, &self.right_len)?;
            if right == 1 {
                return Some(len + right);
            }
        }
        unchanged(&self.left_seq, began).then_some(len)
    }
}

#[test]
fn a_walk_beside_a_split_loses_no_block() {
    explore(|| {
        let pair = Pair::new(2, 0);
        let writer = Arc::clone(&pair);
        let thread = thread::spawn(move || {
            write(&writer.right_seq, || put(&writer.right_len, 1));
            writer.head.store(1, Ordering::Release);
            write(&writer.left_seq, || put(&writer.left_len, 1));
        });
        assert!(pair.walk().is_none_or(|found| found == 2), "both blocks are always held");
        thread.join().unwrap();
    });
}

#[test]
fn a_walk_beside_a_merge_loses_no_block() {
    explore(|| {
        let pair = Pair::new(1, 1);
        let writer = Arc::clone(&pair);
        let thread = thread::spawn(move || {
            write(&writer.left_seq, || put(&writer.left_len, 2));
            writer.head.store(0, Ordering::Release);
            write(&writer.right_seq, || put(&writer.right_len, 0));
        });
        assert!(pair.walk().is_none_or(|found| found == 2), "both blocks are always held");
        thread.join().unwrap();
    });
}

/// Hashes of first blocks that all belong in one slot of a table of 2² slots.
fn neighbours() -> [u64; 2] {
    let mut hashes = (1..).filter(|&hash| tag(hash) >> 30 == 1);
    [(); 2].map(|()| hashes.next().expect("every fourth hash is one"))
}

fn sees(heads: &Heads<AtomicU64>, hash: u64, run: u32) -> bool {
    !matches!(heads.probe(hash, |found| (found == run).then_some(())), Probe::Absent)
}

#[test]
fn a_head_that_is_moved_into_a_hole_is_found_or_asked_for_again() {
    explore(|| {
        let [first, second] = neighbours();
        let heads: Arc<Heads<AtomicU64>> = Arc::new(Heads::with_bits(2));
        heads.insert(first, 1);
        heads.insert(second, 2);
        let writer = Arc::clone(&heads);
        let thread = thread::spawn(move || writer.remove(first, 1));
        assert!(sees(&heads, second, 2), "it is there all the time");
        thread.join().unwrap();
        assert!(!sees(&heads, first, 1));
    });
}

#[test]
fn a_head_is_found_while_its_table_is_replaced_by_a_larger_one() {
    explore(|| {
        let [first, second] = neighbours();
        let heads: Arc<Heads<AtomicU64>> = Arc::new(Heads::with_bits(1));
        heads.insert(first, 1);
        let writer = Arc::clone(&heads);
        let thread = thread::spawn(move || {
            writer.reserve(1, &mut Budget::new(1 << 20)).expect("there is room");
            writer.insert(second, 2);
        });
        assert!(sees(&heads, first, 1), "it is there all the time");
        thread.join().unwrap();
        assert!(sees(&heads, first, 1) && sees(&heads, second, 2));
    });
}
