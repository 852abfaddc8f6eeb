//! Our index alone: memory under churn, and one prompt held by a whole fleet.
use std::collections::VecDeque;
use std::time::Instant;

use tito_kv_index::{Block, Holder, Index, IndexConfig};

use crate::backend::engine_name;
use crate::measure::{live_bytes, percentile, timed};
use crate::workload::Random;

/// A conversation: its holder and its chain hashes.
type Conversation = (Holder, Vec<u64>);

fn store(index: &Index, (holder, chains): &Conversation) {
    let blocks: Vec<Block> = chains.iter().map(|&chain| Block { chain, engine: engine_name(chain) }).collect();
    for at in (0..blocks.len()).step_by(64) {
        let parent = at.checked_sub(1).map(|parent| blocks[parent].engine);
        index.store(*holder, parent, &blocks[at..(at + 64).min(blocks.len())]).expect("the parent is known");
    }
}

/// A prefix that many share, and a rest of a random length.
fn conversation(random: &mut Random, holders: &[Holder]) -> Conversation {
    let prefix = random.next() % 200;
    let mut chains: Vec<u64> = (0..64).map(|at| Random(prefix << 32 | at).next()).collect();
    chains.resize_with(64 + random.range(1, 400), || random.next());
    (holders[random.range(0, holders.len())], chains)
}

/// Stores and removes `blocks` blocks at a constant number of conversations, oldest first, from the head or the tail, with
/// holes; then compares the bytes with those of an index that was given only what lives.
pub fn growth(blocks: u64, conversations: usize) {
    let start = Instant::now();
    let index = Index::new(IndexConfig { bytes_max: 4 << 30 });
    let holders: Vec<Holder> = (0..64).map(|_| index.add_holder()).collect();
    let mut random = Random(7);
    let mut live: VecDeque<Conversation> = VecDeque::new();
    let (mut churned, mut next) = (0u64, blocks / 10);
    while churned < blocks {
        let new = conversation(&mut random, &holders);
        store(&index, &new);
        churned += new.1.len() as u64;
        live.push_back(new);
        if live.len() > conversations {
            let at = if random.next() % 4 == 0 { random.range(0, live.len()) } else { 0 };
            let (holder, chains) = live.remove(at).expect("within");
            // The prefix is shared with other conversations of that holder: only the rest goes.
            let mut gone: Vec<u64> = chains[64..].iter().map(|&chain| engine_name(chain)).collect();
            match random.next() % 3 {
                0 => gone.reverse(),
                1 => gone.rotate_left(random.range(0, chains.len() - 64)),
                _ => {}
            }
            gone.chunks(16).for_each(|gone| index.remove(holder, gone));
        }
        if churned >= next {
            next += blocks / 10;
            println!("{churned} blocks, {:.0} s: {:?}", start.elapsed().as_secs_f64(), index.stats());
        }
    }
    let fresh = Index::new(IndexConfig { bytes_max: 4 << 30 });
    let again: Vec<Holder> = (0..64).map(|_| fresh.add_holder()).collect();
    for (holder, chains) in &live {
        let at = holders.iter().position(|other| other == holder).expect("a known holder");
        store(&fresh, &(again[at], chains.clone()));
    }
    println!("a fresh build of what lives, without what prefixes are held beyond: {:?}", fresh.stats());
    println!("bytes: {:.3} x of a fresh build", index.stats().bytes as f64 / fresh.stats().bytes as f64);
}

/// Look-ups of a prompt of which `holders` holders have the first half, and a few all of it; and what the allocator says
/// beside what the index says.
pub fn fleet(count: usize) {
    let before = live_bytes();
    let index = Index::new(IndexConfig { bytes_max: 1 << 30 });
    let holders: Vec<Holder> = (0..count).map(|_| index.add_holder()).collect();
    let mut random = Random(3);
    let chains: Vec<u64> = (0..590).map(|_| random.next()).collect();
    for (at, &holder) in holders.iter().enumerate() {
        let len = if at % 64 == 0 { 590 } else { 295 };
        store(&index, &(holder, chains[..len].to_vec()));
    }
    let mut found = 0;
    let queries = vec![chains; 20_000];
    let mut times = timed(queries.iter(), |query| { let mut n = 0; index.find(query, |_, _| n += 1); found = n; n }, None);
    println!("{found} of {count} holders found: p50 {} ns, p99 {} ns", percentile(&mut times, 0.5), percentile(&mut times, 0.99));
    drop(queries);
    println!("{:?}; the allocator says {} bytes", index.stats(), live_bytes() - before);
}
