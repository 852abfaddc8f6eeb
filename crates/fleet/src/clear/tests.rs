use std::sync::Arc;

use tito_engine::BoxEngine;
use tito_engine::fake::{Fake, FakeControl, Script};
use tito_types::{KvEvent, KvNews, WorkerId};

use super::*;
use crate::target::tests::{Bench, ON, info};
use crate::{State, Target};

/// What happens to one rank, in this order.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The engine tells of three blocks that begin with this token.
    Stored(u32),
    /// It tells that its blocks are gone.
    Told,
    /// It dropped them at our command.
    Commanded,
    /// It may have.
    Doubted,
    /// The feed missed something for good.
    Missed,
}

/// Plays the steps; compares what is held of each sequence, and the state.
#[track_caller]
fn check(steps: &[Step], held: &[(u32, u32)], state: &str) {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    target.apply(&bench.blocks, KvNews::Complete);
    for step in steps {
        match step {
            Step::Stored(first) => bench.store(0, *first, 3),
            Step::Told => target.apply(&bench.blocks, KvNews::Events(vec![KvEvent::Cleared])),
            Step::Commanded => target.cleared(&bench.blocks),
            Step::Doubted => target.doubted(&bench.blocks),
            Step::Missed => target.apply(&bench.blocks, KvNews::Partial("a gap".into())),
        }
    }
    for &(first, blocks) in held {
        let found = bench.found(first, 3).first().map_or(0, |found| found.1);
        assert_eq!(found, blocks, "of the sequence of {first}, after {steps:?}");
    }
    assert_eq!(target.report().state, state, "after {steps:?}");
}

#[test]
fn a_reset_that_we_command_counts_at_once_and_until_the_engine_says_so() {
    use Step::{Commanded, Doubted, Missed, Stored, Told};
    check(&[Stored(10), Commanded], &[(10, 0)], "complete");
    // What it said before it was told arrives after.
    check(&[Commanded, Stored(10)], &[(10, 0)], "complete");
    check(&[Commanded, Stored(10), Told, Stored(30)], &[(10, 0), (30, 3)], "complete");
    // Somebody else's reset, told while our command is on its way, is none of ours.
    check(&[Told, Stored(10), Commanded], &[(10, 0)], "complete");
    check(&[Told, Stored(10), Commanded, Stored(20), Told, Stored(30)], &[(20, 0), (30, 3)], "complete");
    // The word for an earlier command is none for a later one.
    check(&[Commanded, Commanded, Told, Stored(10)], &[(10, 0)], "complete");
    check(&[Commanded, Commanded, Told, Stored(10), Told, Stored(30)], &[(10, 0), (30, 3)], "complete");
    check(&[Commanded, Told, Stored(10), Commanded, Told, Stored(30)], &[(10, 0), (30, 3)], "complete");
    // Nobody knows whether it did: nothing is believed, and not all is known, until it says so.
    check(&[Stored(10), Doubted, Stored(20)], &[(10, 0), (20, 0)], "partial");
    check(&[Stored(10), Doubted, Stored(20), Told, Stored(30)], &[(20, 0), (30, 3)], "complete");
    // What was missed may be what came before the word.
    check(&[Commanded, Missed, Stored(30)], &[(30, 0)], "partial");
    check(&[Commanded, Missed, Told, Stored(30)], &[(30, 3)], "partial");
}

/// No engine is known that does: it would otherwise be believed nothing until its next reset.
#[tokio::test(start_paused = true)]
async fn an_engine_that_never_says_it_is_believed_again_after_a_while() {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    target.apply(&bench.blocks, KvNews::Complete);
    tokio::time::advance(Duration::from_secs(3600)).await;
    target.cleared(&bench.blocks);
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

/// Its successor shows its own numbers under the same name.
#[test]
fn a_rank_whose_connection_is_gone_stays_gone() {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[1];
    target.apply(&bench.blocks, KvNews::Complete);
    bench.store(1, 10, 3);
    target.close(&bench.blocks);
    let successor = Bench::again(&bench);
    successor[1].apply(&bench.blocks, KvNews::Complete);
    let (metrics, shape) = (bench.metrics(), bench.blocks.shape_version());
    for forget in [Target::cleared, Target::doubted] {
        forget(target, &bench.blocks);
        assert_eq!((target.report().state, target.complete()), ("off", false));
    }
    assert_eq!((bench.metrics(), bench.blocks.shape_version()), (metrics, shape));
}

/// A worker of the bench's targets that takes orders as `control` says.
fn worker(bench: &Bench, control: &FakeControl) -> Worker {
    Worker {
        id: WorkerId::new("w"),
        info: Some(Arc::new(info(ON, 2, 2))),
        adapters: Arc::default(),
        state: State::Ready(BoxEngine::new(Fake::new(|_| Script::default()))),
        control: Some(Arc::new(control.clone())),
        halt: Arc::default(),
        targets: bench.targets.clone(),
    }
}

fn failure() -> EngineError {
    EngineError::Engine(WorkerId::new("w"), "no".into())
}

/// What came of it beside the keeper of the connection, and how often what was known was said to be forgotten.
async fn clear(worker: &Worker, blocks: &Blocks) -> (Result<(), ClearError>, u32) {
    let mut forgotten = 0;
    let outcome = kept(worker, worker.clear_cache(blocks, || forgotten += 1)).await;
    (outcome, forgotten)
}

/// Something beside the keeper of the connection.
async fn kept<T>(worker: &Worker, something: impl Future<Output = T>) -> T {
    let control = worker.control.clone().unwrap_or_else(|| Arc::new(FakeControl::default()));
    let whose = Whose::of(worker.info.as_ref().expect("it was reached"), &worker.targets);
    tokio::select! {
        done = something => done,
        () = worker.halt.settle(&worker.id, &whose, control.as_ref(), || ()) => unreachable!("it never ends"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_rank_is_cleared_and_the_engine_goes_on() {
    let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
    bench.store(0, 10, 3);
    bench.store(1, 10, 3);
    let worker = worker(&bench, &control);
    let paused = || {
        assert!(control.paused() && bench.found(10, 3).is_empty(), "all is forgotten before it goes on");
    };
    kept(&worker, worker.clear_cache(&bench.blocks, paused)).await.unwrap();
    assert_eq!(control.seen(), ["pause and clear", "resume"]);
    assert!(!control.paused());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_turns_the_order_down_keeps_its_blocks() {
    for error in [EngineError::Refused("no".into()), EngineError::Unsupported("no".into())] {
        let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
        bench.store(0, 10, 3);
        control.fail(error.clone());
        let outcome = clear(&worker(&bench, &control), &bench.blocks).await;
        assert_eq!(outcome, (Err(ClearError::Engine(error)), 0));
        assert_eq!(bench.found(10, 3).len(), 1);
        assert_eq!(control.seen(), ["pause and clear"], "nothing was paused");
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_of_which_nobody_knows_what_came_counts_as_carried_out() {
    for error in [failure(), EngineError::Deadline(WorkerId::new("w"))] {
        let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
        bench.targets[0].apply(&bench.blocks, KvNews::Complete);
        bench.store(0, 10, 3);
        control.fail(error.clone());
        let outcome = clear(&worker(&bench, &control), &bench.blocks).await;
        assert_eq!(outcome, (Err(ClearError::Engine(error)), 1));
        assert_eq!((bench.found(10, 3).len(), bench.targets[0].report().state), (0, "partial"));
        assert_eq!((control.seen(), control.paused()), (vec!["pause and clear", "resume"], false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_somebody_else_is_left_alone() {
    let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
    control.pause();
    let outcome = clear(&worker(&bench, &control), &bench.blocks).await;
    assert_eq!((outcome, control.paused()), ((Err(ClearError::Paused), 0), true));
    assert!(control.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_does_not_go_on_is_told_until_it_does() {
    let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
    let mut worker = worker(&bench, &control);
    // vLLM refuses while a pause that was given up is under way, and pauses then.
    (0..100).for_each(|_| control.fail(failure()));
    let both = async {
        let outcome = worker.clear_cache(&bench.blocks, || ()).await;
        assert_eq!(outcome, Err(ClearError::Engine(failure())));
        assert!(worker.halt.halted());
        assert_eq!(worker.clear_cache(&bench.blocks, || ()).await, Err(ClearError::Halted));
        worker.halt.idle().await;
        worker.clear_cache(&bench.blocks, || ()).await
    };
    assert_eq!(kept(&worker, both).await, Ok(()));
    // The pause, 99 tries and the one that did it; and once more, without a failure.
    assert_eq!((control.seen().len(), control.paused()), (1 + 99 + 1 + 2, false));
    worker.control = None;
    worker.state = State::Unreachable("refused".into());
    let outcome = clear(&worker, &bench.blocks).await.0.unwrap_err();
    assert_eq!(outcome.to_string(), "it is unreachable: refused");
}

#[tokio::test(start_paused = true)]
async fn an_order_that_was_carried_out_says_when_the_engine_does_not_go_on() {
    let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
    let worker = worker(&bench, &control);
    // Nobody keeps the connection: it is lost.
    let outcome = worker.clear_cache(&bench.blocks, || ()).await;
    assert_eq!((outcome, control.paused()), (Err(ClearError::LeftPaused), true));
    let idle = tokio::time::timeout(Duration::from_secs(60), worker.halt.idle());
    kept(&worker, idle).await.unwrap();
    assert_eq!((control.seen(), control.paused()), (vec!["pause and clear", "resume"], false));
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_dropped_half_way_leaves_no_pause() {
    let (bench, control) = (Bench::new(ON, 16 << 20), FakeControl::default());
    let worker = worker(&bench, &control);
    control.hang();
    let dropped = tokio::time::timeout(Duration::from_secs(5), clear(&worker, &bench.blocks)).await;
    assert!(dropped.is_err(), "the pause is under way");
    let idle = tokio::time::timeout(Duration::from_secs(60), worker.halt.idle());
    kept(&worker, idle).await.unwrap();
    assert_eq!((control.seen(), control.paused()), (vec!["pause and clear", "resume"], false));
    assert_eq!(clear(&worker, &bench.blocks).await, (Ok(()), 1));
}
