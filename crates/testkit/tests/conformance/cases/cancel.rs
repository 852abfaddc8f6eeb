//! A call that is dropped stops at the engine, running or queued.

use std::time::Duration;

use tokio::time::timeout;
use vllm_proto::PauseMode;

use crate::ask::{Ask, greedy, long, prompt};
use crate::needs::say;
use crate::reply::Reading;
use crate::target::{Kind, Target};

/// How soon a dropped request must be gone, on a machine that is busy with something else. One that went on would
/// take twice as long at least.
fn freed_within(target: &Target) -> Duration {
    match target.kind {
        Kind::Dense => Duration::from_secs(2),
        Kind::Mock | Kind::Light => Duration::from_secs(5),
    }
}

/// How long a call is watched that must not end by itself.
const STILL_RUNNING: Duration = Duration::from_millis(400);

/// Nothing runs any more: a pause that waits for what runs returns at once.
pub(crate) async fn expect_idle(target: &Target, what: &str) {
    let limit = freed_within(target);
    let paused = timeout(limit, target.pause(PauseMode::Wait, false)).await;
    target.resume().await;
    let paused = paused.unwrap_or_else(|_| panic!("{what}: something still runs after {limit:?}"));
    paused.unwrap();
}

/// Runs until it is dropped, and has produced a token.
pub(crate) async fn occupy(target: &Target, id: &str) -> Reading {
    let mut reading = target.open_stream(long(target, id)).await.unwrap();
    assert!(reading.next().await.unwrap().is_some(), "a first message");
    reading
}

pub(crate) async fn dropping_a_stream_frees_the_engine(target: &Target) {
    let mut reading = occupy(target, "dropped-stream").await;
    for _ in 0..3 {
        reading.next().await.unwrap();
    }
    drop(reading);
    expect_idle(target, "a running stream was dropped").await;
}

pub(crate) async fn dropping_a_unary_call_frees_the_engine(target: &Target) {
    let call = target.unary(long(target, "dropped-unary"));
    assert!(timeout(STILL_RUNNING, call).await.is_err(), "the call was to last");
    expect_idle(target, "a running unary call was dropped").await;
}

/// One request runs, one waits behind it and is dropped, one waits behind both: the last must be served as soon as
/// the first is gone, so the second did not keep its place.
async fn dropped_in_the_queue(target: &Target, drop_queued: impl AsyncFnOnce(&Target)) {
    let one_at_a_time = target.facts.running_max == 1;
    if !one_at_a_time {
        let most = target.facts.running_max;
        say(&format!("weaker: this engine runs {most} requests at a time, so the dropped one was running"));
    }
    let running = occupy(target, "running").await;
    drop_queued(target).await;
    let mut last = Box::pin(target.unary(greedy(&prompt(20, 1), 2)));
    if one_at_a_time {
        assert!(timeout(STILL_RUNNING, last.as_mut()).await.is_err(), "the last request is in the queue");
    }
    drop(running);
    let reply = timeout(freed_within(target), last).await.expect("the request behind the dropped one");
    assert_eq!(reply.unwrap().tokens().len(), 2);
    expect_idle(target, "a queued call was dropped").await;
}

pub(crate) async fn a_dropped_stream_in_the_queue_never_runs(target: &Target) {
    let drop_queued = async |target: &Target| {
        let queued = target.open_stream(long(target, "queued-stream")).await.unwrap();
        drop(queued);
    };
    dropped_in_the_queue(target, drop_queued).await;
}

pub(crate) async fn a_dropped_unary_call_in_the_queue_never_runs(target: &Target) {
    let drop_queued = async |target: &Target| {
        let queued = timeout(STILL_RUNNING, target.unary(long(target, "queued-unary"))).await;
        assert!(queued.is_err(), "the call was to last");
    };
    dropped_in_the_queue(target, drop_queued).await;
}

pub(crate) async fn after_a_dropped_call_the_next_is_served(target: &Target) {
    let expected = target.unary(greedy(&prompt(20, 1), 2)).await.unwrap();
    for _ in 0..5 {
        drop(occupy(target, "dropped").await);
        let same_id = greedy(&prompt(20, 1), 2).with(|request| request.request_id = "dropped".into());
        assert_eq!(target.unary(same_id).await.unwrap().tokens(), expected.tokens());
    }
}
