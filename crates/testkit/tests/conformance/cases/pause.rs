//! Pause and resume: what becomes of what runs, and of what comes meanwhile.

use std::time::Duration;

use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use vllm_proto::{GetServerInfoRequest, IsPausedRequest, IsSleepingRequest, PauseMode};

use super::cancel::occupy;
use super::health;
use crate::ask::{greedy, lasting, prompt, slow};
use crate::reply::{Reading, Reply};
use crate::target::Target;

/// Silence that long means that nothing is being generated.
pub(crate) const SILENCE: Duration = Duration::from_millis(500);

/// Whether the engine says that it is paused, and that it sleeps.
async fn state(target: &Target) -> (bool, bool) {
    let paused = target.control().is_paused(IsPausedRequest {}).await.unwrap().get_ref().paused;
    let sleeping = target.control().is_sleeping(IsSleepingRequest {}).await.unwrap().get_ref().sleeping;
    (paused, sleeping)
}

async fn ends_what_runs(target: &Target, mode: PauseMode) {
    let reading = occupy(target, "paused").await;
    target.pause(mode, false).await.unwrap();
    let reply = reading.rest().await.unwrap();
    assert_eq!(reply.end(), "aborted", "{} tokens: did the pause come too late?", reply.output.num_tokens);
    assert!(!reply.tokens().is_empty(), "the tokens so far come with it");
    assert!(state(target).await.0, "paused");
    target.resume().await;
    assert_eq!(target.unary(greedy(&prompt(20, 1), 2)).await.unwrap().end(), "length");
}

pub(crate) async fn an_aborting_pause_ends_what_runs(target: &Target) {
    ends_what_runs(target, PauseMode::Abort).await;
}

pub(crate) async fn an_unspecified_pause_aborts(target: &Target) {
    ends_what_runs(target, PauseMode::Unspecified).await;
}

/// A request that has begun and lasts, and what it will have in the end.
async fn running(target: &Target) -> (Reply, Reading) {
    let request = greedy(&prompt(40, 5), lasting(target));
    let expected = target.unary(request.clone()).await.unwrap();
    let mut reading = target.open_stream(slow(target, request)).await.unwrap();
    assert!(reading.next().await.unwrap().is_some(), "it runs");
    (expected, reading)
}

pub(crate) async fn a_waiting_pause_lets_what_runs_finish(target: &Target) {
    let (expected, reading) = running(target).await;
    let (paused, reply) = tokio::join!(target.pause(PauseMode::Wait, false), reading.rest());
    paused.unwrap();
    let reply = reply.unwrap();
    assert_eq!((reply.end().as_str(), reply.tokens()), ("length", expected.tokens()));
    assert!(state(target).await.0, "paused once everything has finished");
    target.resume().await;
}

pub(crate) async fn a_keeping_pause_freezes_what_runs(target: &Target) {
    let (expected, mut reading) = running(target).await;
    target.pause(PauseMode::Keep, false).await.unwrap();
    // What was on its way still arrives; then nothing does.
    while let Ok(message) = timeout(SILENCE, reading.next()).await {
        message.unwrap();
        assert!(!reading.finished() && reading.tokens() < lasting(target), "or did the pause come too late?");
    }
    target.resume().await;
    let reply = reading.rest().await.unwrap();
    assert_eq!((reply.end().as_str(), reply.tokens()), ("length", expected.tokens()), "as if never paused");
}

pub(crate) async fn a_pause_that_keeps_and_clears_drops_the_cache_and_no_token(target: &Target) {
    let clear = async || {
        target.pause(PauseMode::Keep, true).await.unwrap();
        target.resume().await;
    };
    let block = target.facts.block;
    let other = prompt(2 * block + 6, 8);
    let cached = async || target.unary(greedy(&other, 1)).await.unwrap().cached();
    cached().await;
    assert_eq!(cached().await, 2 * block, "warm");
    let (expected, reading) = running(target).await;
    clear().await;
    assert!(!reading.finished() && reading.tokens() < lasting(target), "or did the pause come too late?");
    let reply = reading.rest().await.unwrap();
    assert_eq!((reply.end().as_str(), reply.tokens()), ("length", expected.tokens()), "as if nothing was");
    assert_eq!(cached().await, 0, "cold again");
    clear().await;
    assert_eq!(cached().await, 0, "also an engine without work is cleared");
    assert_eq!(cached().await, 2 * block, "and warm once more");
}

pub(crate) async fn requests_wait_while_paused(target: &Target) {
    let expected = target.unary(greedy(&prompt(20, 1), 4)).await.unwrap();
    for mode in [PauseMode::Abort, PauseMode::Wait, PauseMode::Keep] {
        target.pause(mode, false).await.unwrap();
        let mut stream = target.open_stream(greedy(&prompt(20, 1), 4)).await.unwrap();
        let mut unary = Box::pin(target.unary(greedy(&prompt(20, 1), 4)));
        assert!(timeout(SILENCE, unary.as_mut()).await.is_err(), "{mode:?}: unary waits");
        assert!(timeout(SILENCE, stream.next()).await.is_err(), "{mode:?}: the stream is open and silent");
        target.resume().await;
        assert_eq!(unary.await.unwrap().tokens(), expected.tokens(), "{mode:?}: unary, resumed");
        assert_eq!(stream.rest().await.unwrap().tokens(), expected.tokens(), "{mode:?}: stream, resumed");
    }
}

pub(crate) async fn the_state_is_reported(target: &Target) {
    assert_eq!(state(target).await, (false, false), "before");
    for mode in [PauseMode::Unspecified, PauseMode::Abort, PauseMode::Wait, PauseMode::Keep] {
        target.pause(mode, false).await.unwrap();
        assert_eq!(state(target).await, (true, true), "{mode:?}: a paused engine also says that it sleeps");
        target.resume().await;
        assert_eq!(state(target).await, (false, false), "after {mode:?}");
    }
}

pub(crate) async fn an_unknown_mode_is_refused(target: &Target) {
    assert_eq!(target.pause(9, false).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(state(target).await, (false, false), "nothing changed");
}

pub(crate) async fn resuming_twice_is_harmless(target: &Target) {
    target.resume().await;
    target.pause(PauseMode::Keep, false).await.unwrap();
    target.resume().await;
    target.resume().await;
    assert_eq!(target.unary(greedy(&prompt(20, 1), 2)).await.unwrap().end(), "length");
}

pub(crate) async fn health_and_discovery_go_on_while_paused(target: &Target) {
    target.pause(PauseMode::Keep, false).await.unwrap();
    assert_eq!(health::check(target, "vllm.Inference").await, Ok(ServingStatus::Serving));
    target.control().get_server_info(GetServerInfoRequest {}).await.unwrap();
    let invalid = greedy(&[], 2);
    assert_eq!(target.refusal(invalid).await, Ok(Code::InvalidArgument), "checks do not wait");
    target.resume().await;
}
