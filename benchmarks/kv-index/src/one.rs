//! One structure, measured once.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use dynamo_kv_router::ConcurrentRadixTreeCompressed;

use crate::backend::{Backend, Tito, Writer, wire};
use crate::measure::{live_bytes, percentile, rate, timed};
use crate::peers::{Chain, Dynamo};
use crate::workload::Load;

/// Fresh structures for store and remove; the best counts.
const FRESH: usize = 3;

fn wrong<B: Backend>(load: &Load, asked: &[Vec<u64>], backend: &B) -> f64 {
    let sample = 0..asked.len().min(400);
    sample.filter(|&query| backend.scores(&asked[query]) != load.truth(query)).count() as f64
}

fn mega(blocks: usize, time: Duration) -> f64 {
    blocks as f64 / time.as_secs_f64() / 1e6
}

/// Names and values, in the order of the table.
pub fn measure<B: Backend>(load: &Load, new: impl Fn() -> B) -> Vec<(&'static str, f64)> {
    let mut out = vec![];
    let removed: usize = load.tail_first.iter().map(|event| event.blocks()).sum();
    let (mut store, mut tail, mut head) = (Duration::MAX, Duration::MAX, Duration::MAX);
    for _ in 0..FRESH {
        for (removes, best) in [(&load.tail_first, &mut tail), (&load.head_first, &mut head)] {
            let mut writer = Arc::new(new()).writer();
            store = store.min(writer.apply(wire(&load.stores)));
            *best = (*best).min(writer.apply(wire(removes)));
        }
    }
    let events = wire(&load.stores);
    let before = live_bytes();
    let copy = events.clone();
    let payload = live_bytes() - before;
    drop(copy);
    let before = live_bytes();
    let backend = Arc::new(new());
    let mut writer = backend.clone().writer();
    store = store.min(writer.apply(events));
    let bytes = (live_bytes() - before + payload) as f64;
    let asked = if backend.chained() { &load.chains } else { &load.contents };
    let mut failures = wrong(load, asked, &*backend);
    timed(asked.iter(), |query| backend.find(query), None);
    let mut times: Vec<u32> = (0..3).flat_map(|_| timed(asked.iter(), |query| backend.find(query), None)).collect();
    out.push(("find p50 ns", percentile(&mut times, 0.5)));
    out.push(("find p99 ns", percentile(&mut times, 0.99)));
    out.push(("find p99.9 ns", percentile(&mut times, 0.999)));
    out.push(("find M/s", rate(&times) / 1e6));
    if backend.shared() {
        out.push(("find, 2 threads, M/s", two_readers(&backend, asked) / 1e6));
        if !load.churn.is_empty() {
            let (mut reader, churn) = beside_churn(load, &backend, asked, &mut *writer);
            out.push(("reader p50 ns beside churn", percentile(&mut reader, 0.5)));
            out.push(("reader p99 ns beside churn", percentile(&mut reader, 0.99)));
            out.push(("churn M blocks/s", churn));
            failures += wrong(load, asked, &*backend);
        }
    }
    out.push(("store M blocks/s", mega(load.memberships, store)));
    out.push(("remove tail-first M blocks/s", mega(removed, tail)));
    out.push(("remove head-first M blocks/s", mega(removed, head)));
    out.push(("B per membership", bytes / load.memberships as f64));
    out.push(("B per distinct block", bytes / load.distinct as f64));
    out.push(("clear ms", writer.clear(load.fullest()).as_secs_f64() * 1e3));
    out.push(("wrong", failures));
    let note = backend.note();
    if !note.is_empty() {
        println!("# {note}");
    }
    out
}

/// Writes of our index and of the peers that are best at them, in turn and in one process: what a noisy machine does to
/// one of them it does to the others. Prints how many times as fast as the better peer ours is, over all turns.
pub fn pairs(load: &Load, reps: usize) {
    let removals = [("remove, tail first", &load.tail_first), ("remove, head first", &load.head_first)];
    let mut ratios = [("store", vec![]), (removals[0].0, vec![]), (removals[1].0, vec![])];
    for _ in 0..reps {
        let [mut own, mut best] = [[Duration::MAX; 3]; 2];
        for (at, (_, removes)) in (1..).zip(removals) {
            let writers: [Box<dyn Writer>; 3] = [
                Arc::new(Tito::new(load)).writer(),
                Arc::new(Chain::new(load, false)).writer(),
                Arc::new(Dynamo(ConcurrentRadixTreeCompressed::new())).writer(),
            ];
            for (structure, mut writer) in writers.into_iter().enumerate() {
                let times = if structure == 0 { &mut own } else { &mut best };
                times[0] = times[0].min(writer.apply(wire(&load.stores)));
                times[at] = times[at].min(writer.apply(wire(removes)));
            }
        }
        for ((_, ratios), (own, best)) in ratios.iter_mut().zip(own.iter().zip(best)) {
            ratios.push(best.as_secs_f64() / own.as_secs_f64());
        }
    }
    println!("| times the better peer, {reps} turns | p10 | p50 | p90 |\n|---|---|---|---|");
    for (name, ratios) in &mut ratios {
        ratios.sort_by(f64::total_cmp);
        let [low, mid, high] = [0.1, 0.5, 0.9].map(|share| ratios[(share * reps as f64) as usize]);
        println!("| {name} | {low:.2} | {mid:.2} | {high:.2} |");
    }
}

fn two_readers<B: Backend>(backend: &Arc<B>, asked: &[Vec<u64>]) -> f64 {
    std::thread::scope(|scope| {
        let read = |skip: usize| {
            let times: Vec<u32> =
                (0..4).flat_map(|_| timed(asked.iter().skip(skip), |query| backend.find(query), None)).collect();
            rate(&times)
        };
        let readers = [scope.spawn(move || read(0)), scope.spawn(move || read(997))];
        readers.into_iter().map(|reader| reader.join().expect("a reader ends")).sum()
    })
}

fn beside_churn<B: Backend>(
    load: &Load,
    backend: &Arc<B>,
    asked: &[Vec<u64>],
    writer: &mut dyn crate::backend::Writer,
) -> (Vec<u32>, f64) {
    let stop = AtomicBool::new(false);
    let blocks: usize = load.churn.iter().map(|event| event.blocks()).sum();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut times = vec![];
            while !stop.load(Relaxed) {
                times.extend(timed(asked.iter(), |query| backend.find(query), Some(&stop)));
            }
            times
        });
        let spent: Duration = (0..12).map(|_| writer.apply(wire(&load.churn))).sum();
        stop.store(true, Relaxed);
        (reader.join().expect("the reader ends"), mega(12 * blocks, spent))
    })
}
