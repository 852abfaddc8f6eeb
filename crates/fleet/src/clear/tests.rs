use std::sync::Arc;

use tito_engine::BoxEngine;
use tito_engine::fake::{Fake, FakeControl, Script};
use tito_types::{KvEvent, KvNews, WorkerId};

use super::*;
use crate::State;
use crate::target::tests::{Bench, ON};

/// What happens to one rank, in this order.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The engine tells of three blocks that begin with this token.
    Stored(u32),
    /// It tells that its blocks are gone.
    Told,
    /// It is about to be told to drop them …
    Begin,
    /// … and has: the first of those that began.
    Done,
    /// The feed missed something for good.
    Missed,
}

/// Plays the steps and compares what is held of each sequence.
#[track_caller]
fn check(steps: &[Step], held: &[(u32, u32)]) {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    target.apply(&bench.blocks, KvNews::Complete);
    let mut begun = std::collections::VecDeque::new();
    for step in steps {
        match step {
            Step::Stored(first) => bench.store(0, *first, 3),
            Step::Told => target.apply(&bench.blocks, KvNews::Events(vec![KvEvent::Cleared])),
            Step::Begin => begun.push_back(target.clears()),
            Step::Done => target.cleared(&bench.blocks, begun.pop_front().expect("one began")),
            Step::Missed => target.apply(&bench.blocks, KvNews::Partial("a gap".into())),
        }
    }
    for &(first, blocks) in held {
        let found = bench.found(first, 3).first().map_or(0, |found| found.1);
        assert_eq!(found, blocks, "of the sequence of {first}, after {steps:?}");
    }
}

#[test]
fn a_reset_that_we_command_counts_at_once_and_once() {
    use Step::{Begin, Done, Missed, Stored, Told};
    check(&[Stored(10), Begin, Done], &[(10, 0)]);
    // What it said before it was told arrives after.
    check(&[Begin, Done, Stored(10)], &[(10, 0)]);
    check(&[Begin, Done, Stored(10), Told, Stored(30)], &[(10, 0), (30, 3)]);
    // Its word is faster than its answer: what follows is true.
    check(&[Stored(10), Begin, Told, Stored(30), Done], &[(10, 0), (30, 3)]);
    check(&[Begin, Told, Done, Stored(30)], &[(30, 3)]);
    // The word for an earlier reset is none for this one.
    check(&[Begin, Done, Begin, Told, Stored(10), Done, Stored(30)], &[(10, 0), (30, 0)]);
    check(&[Begin, Done, Begin, Told, Stored(10), Done, Told, Stored(30)], &[(10, 0), (30, 3)]);
    check(&[Begin, Done, Begin, Told, Told, Stored(30), Done], &[(30, 3)]);
    check(&[Begin, Begin, Done, Done, Told, Stored(10), Told, Stored(30)], &[(10, 0), (30, 3)]);
    // The word may have been among what was missed: it is not waited for.
    check(&[Begin, Done, Missed, Stored(30)], &[(30, 3)]);
    // A command that failed changes nothing.
    check(&[Stored(10), Begin, Stored(30)], &[(10, 3), (30, 3)]);
}

/// No engine is known that does: it would otherwise be believed nothing until its next reset.
#[tokio::test(start_paused = true)]
async fn an_engine_that_never_says_it_is_believed_again_after_a_while() {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    target.apply(&bench.blocks, KvNews::Complete);
    tokio::time::advance(Duration::from_secs(3600)).await;
    target.cleared(&bench.blocks, target.clears());
    tokio::time::advance(Duration::from_secs(3600)).await;
    for first in [10, 30] {
        bench.store(0, first, 3);
        tokio::time::advance(Duration::from_secs(16)).await;
    }
    assert_eq!((target.report().state, bench.found(30, 3).len()), ("complete", 0), "it may still come");
    bench.store(0, 50, 3);
    bench.store(0, 70, 3);
    let report = target.report();
    let reason = "it never said that it dropped its blocks at our command";
    assert_eq!((report.state, report.reason.as_deref()), ("partial", Some(reason)));
    assert_eq!((bench.found(50, 3).len(), bench.found(70, 3).len()), (0, 1));
}

#[test]
fn a_rank_that_was_cleared_is_known_whole_and_a_closed_one_stays_closed() {
    let bench = Bench::new(ON, 16 << 20);
    let [open, closed] = [&bench.targets[0], &bench.targets[1]];
    open.apply(&bench.blocks, KvNews::Complete);
    closed.apply(&bench.blocks, KvNews::Complete);
    let emptied = open.emptied();
    open.cleared(&bench.blocks, open.clears());
    assert_eq!((open.report().state, open.emptied()), ("complete", emptied + 1));
    let before = closed.clears();
    closed.close(&bench.blocks);
    closed.cleared(&bench.blocks, before);
    assert_eq!((closed.report().state, closed.complete()), ("off", false));
}

/// A worker of the bench's targets that takes orders as `control` says.
fn worker(bench: &Bench, control: &FakeControl) -> Worker {
    Worker {
        id: WorkerId::new("w"),
        info: None,
        adapters: Arc::default(),
        state: State::Ready(BoxEngine::new(Fake::new(|_| Script::default()))),
        control: Some(Arc::new(control.clone())),
        targets: bench.targets.clone(),
    }
}

fn failure() -> EngineError {
    EngineError::Engine(WorkerId::new("w"), "no".into())
}

#[tokio::test(start_paused = true)]
async fn every_rank_is_cleared_and_the_engine_goes_on() {
    let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
    bench.store(0, 10, 3);
    bench.store(1, 10, 3);
    worker(&bench, &control).clear_cache(&bench.blocks).await.unwrap();
    assert_eq!(bench.found(10, 3), []);
    assert_eq!(control.seen(), ["pause and clear", "resume"]);
    assert!(!control.paused());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_refuses_keeps_its_blocks_and_is_resumed_all_the_same() {
    let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
    bench.store(0, 10, 3);
    control.fail(failure());
    let outcome = worker(&bench, &control).clear_cache(&bench.blocks).await;
    assert_eq!(outcome, Err(ClearError::Engine(failure())));
    assert_eq!(bench.found(10, 3).len(), 1);
    assert_eq!(control.seen(), ["pause and clear", "resume"]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_somebody_else_is_left_alone() {
    let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
    control.pause();
    let outcome = worker(&bench, &control).clear_cache(&bench.blocks).await;
    assert_eq!((outcome, control.paused()), (Err(ClearError::Paused), true));
    assert!(control.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_does_not_go_on_is_told_again_a_few_times() {
    let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
    let mut worker = worker(&bench, &control);
    control.fail(failure());
    control.fail(failure());
    let outcome = worker.clear_cache(&bench.blocks).await;
    assert_eq!((outcome, control.paused()), (Err(ClearError::Engine(failure())), false));
    (0..=RESUME_TRIES).for_each(|_| control.fail(failure()));
    let orders = control.seen().len();
    assert_eq!(worker.clear_cache(&bench.blocks).await, Err(ClearError::LeftPaused(failure())));
    assert_eq!(control.seen().len() - orders, 1 + RESUME_TRIES as usize);
    worker.control = None;
    worker.state = State::Unreachable("refused".into());
    let outcome = worker.clear_cache(&bench.blocks).await.unwrap_err();
    assert_eq!(outcome.to_string(), "it is unreachable: refused");
}
