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

/// The rank is partial for a reason that begins like this, and complete after the next clear.
async fn costs_history(
    what: &str,
    config: MockConfig,
    reason: [&str; 2],
    counted: (u64, u64, u64),
    fault: impl FnOnce(&Bench),
) {
    let (mut bench, seen) = suffer(what, config, fault).await;
    let why = seen.reason.clone().unwrap_or_default();
    assert!(!seen.complete && why.starts_with(reason[0]) && why.ends_with(reason[1]), "{what}: {seen:?}");
    assert_eq!(seen_of(&seen.counters), counted, "{what}: {seen:?}");
    bench.clear_and_check().await;
}

#[tokio::test]
async fn a_batch_that_cannot_be_read_costs_the_rank_its_history_where_nobody_answers() {
    let reason = ["no replay was answered", " batches may be missing"];
    let fault = |bench: &Bench| {
        bench.set(0, Fault::KvReplaySilent { rank: Some(0) }, 1);
        bench.fault(0, 0, FrameFault::Corrupt, 1);
    };
    costs_history("corrupt", config(KvStyle::default()), reason, (0, 2, 1), fault).await;
}

#[tokio::test]
async fn a_gap_that_nobody_fills_costs_the_rank_its_history() {
    let reason = ["batches before ", " are missing and could not be replayed"];
    let fault = |bench: &Bench| {
        bench.set(0, Fault::KvReplaySilent { rank: Some(0) }, 1);
        bench.fault(0, 0, FrameFault::Drop, 2);
    };
    costs_history("silent replay", config(KvStyle::default()), reason, (1, 2, 0), fault).await;
}

#[tokio::test]
async fn a_gap_longer_than_the_replay_buffer_costs_the_rank_its_history() {
    let mut short = config(KvStyle::default());
    short.kv_events.as_mut().unwrap().buffer_steps = 3;
    let reason = ["the engine's replay buffer begins at batch ", ""];
    let fault = |bench: &Bench| bench.fault(0, 0, FrameFault::Drop, 6);
    costs_history("short buffer", short, reason, (1, 2, 0), fault).await;
}

#[tokio::test]
async fn without_a_replay_endpoint_a_gap_costs_the_rank_its_history() {
    let mut deaf = config(KvStyle::default());
    deaf.kv_events.as_mut().unwrap().replay_endpoint = None;
    let mut bench = Bench::start_at_once("no replay".to_owned(), vec![deaf]).await;
    let heard =
        |bench: &Bench| bench.targets().iter().all(|(_, target)| target.report().counters.batches > 0);
    let mut number = 0;
    // Nobody can tell when a subscription has taken effect.
    while !heard(&bench) {
        traffic(&mut bench, number..number + 2).await;
        number += 2;
    }
    bench.clear_and_check().await;
    traffic(&mut bench, 0..10).await;
    bench.fault(0, 0, FrameFault::Drop, 1);
    traffic(&mut bench, 10..30).await;
    bench.settle().await;
    let seen = bench.check();
    assert!(!seen[&(0, 0)].complete && seen[&(0, 1)].complete, "{seen:?}");
    bench.clear_and_check().await;
}

#[tokio::test]
async fn a_clear_empties_the_rank_at_once() {
    let mut bench = Bench::start("clear".to_owned(), vec![config(KvStyle::default())]).await;
    traffic(&mut bench, 0..10).await;
    bench.settle().await;
    let before = bench.target(0, 0).report().blocks[0];
    bench.clear_and_check().await;
    let after = bench.target(0, 0).report().blocks[0];
    assert!(before > 2 && after == 2, "{before} blocks, then the two that told of the clear: {after}");
}

#[tokio::test]
async fn a_commanded_clear_does_not_wait_for_the_engines_word() {
    let mut bench = Bench::start("commanded clear".to_owned(), vec![config(KvStyle::default())]).await;
    traffic(&mut bench, 0..10).await;
    bench.settle().await;
    bench.command_clear(0).await;
    for (_, target) in bench.targets() {
        assert_eq!((target.report().blocks[0], target.complete()), (0, true));
    }
    traffic(&mut bench, 10..20).await;
    bench.settle().await;
    assert!(bench.check().values().all(|seen| seen.complete));
}
