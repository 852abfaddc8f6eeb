//! One thing that goes wrong, and what is known and counted after it.

use std::time::Duration;

use tito_mock::{Fault, FrameFault, KvStyle, MockConfig};
use tito_types::KvCounters;

use crate::ask::Ask;
use crate::bench::{Bench, Seen, config};

/// A prompt of some length that begins like every fifth other, on both ranks of the first mock.
async fn traffic(bench: &mut Bench, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let tokens = (0..40 + number * 31 % 150).map(|index| (index * 7 + number * 13 % 5) % 800);
        let ask = Ask { output: 1 + number % 40, ..Ask::text(tokens) };
        bench.ask(0, number % 2, &ask).await;
    }
}

/// Lets rank 0 suffer and says what is known of it after that; rank 1 must not have noticed.
async fn suffer(what: &str, config: MockConfig, fault: impl FnOnce(&Bench)) -> (Bench, Seen) {
    let mut bench = Bench::start(what.to_owned(), vec![config]).await;
    traffic(&mut bench, 0..10).await;
    fault(&bench);
    traffic(&mut bench, 10..40).await;
    bench.settle().await;
    let seen = bench.check();
    let healthy = &seen[&(0, 1)];
    assert!(healthy.complete, "{what}: the other rank is {healthy:?}");
    let KvCounters { gaps, duplicates, unreadable, restarts, .. } = healthy.counters;
    assert_eq!((gaps, duplicates, unreadable, restarts), (0, 0, 0, 0), "{what}: the other rank");
    let suffered = seen[&(0, 0)].clone();
    (bench, suffered)
}

/// Gaps, replays, unreadable batches.
fn seen_of(counters: &KvCounters) -> (u64, u64, u64) {
    assert_eq!((counters.restarts, counters.skipped), (0, 0), "{counters:?}");
    (counters.gaps, counters.replays, counters.unreadable)
}

#[tokio::test]
async fn what_a_replay_brings_back_leaves_the_index_complete() {
    for (frame, count, counted) in [
        (FrameFault::Drop, 1, (1, 2, 0)),
        (FrameFault::Drop, 5, (1, 2, 0)),
        (FrameFault::Duplicate, 3, (0, 1, 0)),
        (FrameFault::Reorder, 1, (1, 2, 0)),
        (FrameFault::TruncateSeq, 1, (0, 2, 1)),
        (FrameFault::Corrupt, 1, (0, 2, 1)),
    ] {
        let what = format!("{frame:?} × {count}");
        let (_bench, seen) =
            suffer(&what, config(KvStyle::default()), |bench| bench.fault(0, 0, frame, count)).await;
        assert!(seen.complete, "{what}: {seen:?}");
        assert_eq!(seen_of(&seen.counters), counted, "{what}: {seen:?}");
        // What comes while a replay runs may be in it as well.
        let twice = matches!(frame, FrameFault::Duplicate | FrameFault::Reorder);
        assert!(seen.counters.duplicates > 0 || !twice, "{what}: {seen:?}");
    }
}

#[tokio::test]
async fn a_late_replay_is_waited_for() {
    let (_bench, seen) = suffer("late replay", config(KvStyle::default()), |bench| {
        bench.set(0, Fault::KvReplayDelay { rank: Some(0), delay: Duration::from_millis(300) }, 1);
        bench.fault(0, 0, FrameFault::Drop, 2);
    })
    .await;
    assert!(seen.complete, "{seen:?}");
    assert_eq!(seen_of(&seen.counters), (1, 2, 0));
}

#[tokio::test]
async fn what_no_replay_brings_back_costs_the_rank_its_history_until_the_next_clear() {
    let mut short = config(KvStyle::default());
    short.kv_events.as_mut().unwrap().buffer_steps = 3;
    let whole = || config(KvStyle::default());
    for (config, silent, frame, count, reason, counted) in [
        (whole(), true, FrameFault::Corrupt, 1, ["no replay was answered", " may be missing"], (0, 2, 1)),
        (whole(), true, FrameFault::Drop, 2, ["batches before ", " could not be replayed"], (1, 2, 0)),
        (short, false, FrameFault::Drop, 6, ["the engine's replay buffer begins at batch ", ""], (1, 2, 0)),
    ] {
        let what = format!("{frame:?} × {count}, replay silent: {silent}");
        let (mut bench, seen) = suffer(&what, config, |bench| {
            if silent {
                bench.set(0, Fault::KvReplaySilent { rank: Some(0) }, 1);
            }
            bench.fault(0, 0, frame, count);
        })
        .await;
        let why = seen.reason.clone().unwrap_or_default();
        let told = why.starts_with(reason[0]) && why.ends_with(reason[1]);
        assert!(!seen.complete && told, "{what}: {seen:?}");
        assert_eq!(seen_of(&seen.counters), counted, "{what}: {seen:?}");
        bench.clear_and_check().await;
    }
}
