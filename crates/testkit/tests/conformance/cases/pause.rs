//! Pause and resume: what becomes of what runs, and of what comes meanwhile.

use std::time::Duration;

use tokio::time::timeout;
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use vllm_proto::{
    GetServerInfoRequest, IsPausedRequest, IsSleepingRequest, PauseGenerationRequest, PauseMode,
    ResumeGenerationRequest,
};

use super::cancel::occupy;
use super::health;
use crate::ask::{greedy, lasting, prompt, slow};
use crate::reply::{REPLY_LIMIT, Reading};
use crate::target::{Target, within};

/// Silence that long means that nothing is being generated.
pub(crate) const SILENCE: Duration = Duration::from_millis(500);

async fn pause(target: &Target, mode: i32) -> Result<(), Status> {
    let request = PauseGenerationRequest { mode, clear_cache: Some(false) };
    within(REPLY_LIMIT, "pause", target.control().pause_generation(request)).await.map(|_| ())
}

async fn resume(target: &Target) {
    target.control().resume_generation(ResumeGenerationRequest {}).await.unwrap();
}

/// Whether the engine says that it is paused, and that it sleeps.
async fn state(target: &Target) -> (bool, bool) {
    let paused = target.control().is_paused(IsPausedRequest {}).await.unwrap().get_ref().paused;
    let sleeping = target.control().is_sleeping(IsSleepingRequest {}).await.unwrap().get_ref().sleeping;
    (paused, sleeping)
}

async fn expect_aborted(reading: Reading) {
    let reply = within(REPLY_LIMIT, "the end", reading.rest()).await.unwrap();
    assert_eq!(reply.end(), "aborted", "{} tokens: did the pause come too late?", reply.output.num_tokens);
    assert!(!reply.tokens().is_empty(), "the tokens so far come with it");
}

pub(crate) async fn an_aborting_pause_ends_what_runs(target: &Target) {
    let reading = occupy(target, "paused").await;
    pause(target, PauseMode::Abort.into()).await.unwrap();
    expect_aborted(reading).await;
    assert!(state(target).await.0, "paused");
    resume(target).await;
    assert_eq!(target.unary(greedy(&prompt(20, 1), 2)).await.unwrap().end(), "length");
}

pub(crate) async fn an_unspecified_pause_aborts(target: &Target) {
    let reading = occupy(target, "paused").await;
    pause(target, PauseMode::Unspecified.into()).await.unwrap();
    expect_aborted(reading).await;
    resume(target).await;
}

pub(crate) async fn a_waiting_pause_lets_what_runs_finish(target: &Target) {
    let budget = lasting(target);
    let expected = target.unary(greedy(&prompt(40, 5), budget)).await.unwrap();
    let mut reading = target.open_stream(slow(target, greedy(&prompt(40, 5), budget))).await.unwrap();
    assert!(reading.next().await.unwrap().is_some(), "it runs");
    let (paused, reply) = tokio::join!(pause(target, PauseMode::Wait.into()), reading.rest());
    paused.unwrap();
    let reply = reply.unwrap();
    assert_eq!((reply.end().as_str(), reply.tokens()), ("length", expected.tokens()));
    assert!(state(target).await.0, "paused once everything has finished");
    resume(target).await;
}

pub(crate) async fn a_keeping_pause_freezes_what_runs(target: &Target) {
    let budget = lasting(target);
    let expected = target.unary(greedy(&prompt(40, 5), budget)).await.unwrap();
    let mut reading = target.open_stream(slow(target, greedy(&prompt(40, 5), budget))).await.unwrap();
    assert!(reading.next().await.unwrap().is_some(), "it runs");
    pause(target, PauseMode::Keep.into()).await.unwrap();
    // What was on its way still arrives; then nothing does.
    while let Ok(message) = timeout(SILENCE, reading.next()).await {
        message.unwrap();
        assert!(
            !reading.finished() && reading.tokens() < budget,
            "frozen before its end, or did the pause come too late?"
        );
    }
    resume(target).await;
    let reply = reading.rest().await.unwrap();
    assert_eq!((reply.end().as_str(), reply.tokens()), ("length", expected.tokens()), "as if never paused");
}

pub(crate) async fn a_pause_that_keeps_and_clears_drops_the_cache_and_no_token(target: &Target) {
    let clear = async || {
        let request = PauseGenerationRequest { mode: PauseMode::Keep.into(), clear_cache: Some(true) };
        within(REPLY_LIMIT, "pause", target.control().pause_generation(request)).await.unwrap();
        resume(target).await;
    };
    let (budget, block) = (lasting(target), target.facts.block);
    let other = prompt(2 * block + 6, 8);
    let cached = async || target.unary(greedy(&other, 1)).await.unwrap().cached();
    cached().await;
    assert_eq!(cached().await, 2 * block, "warm");
    let expected = target.unary(greedy(&prompt(40, 5), budget)).await.unwrap();
    let mut reading = target.open_stream(slow(target, greedy(&prompt(40, 5), budget))).await.unwrap();
    assert!(reading.next().await.unwrap().is_some(), "it runs");
    clear().await;
    assert!(!reading.finished() && reading.tokens() < budget, "or did the pause come too late?");
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
        pause(target, mode.into()).await.unwrap();
        let mut stream = target.open_stream(greedy(&prompt(20, 1), 4)).await.unwrap();
        let mut unary = Box::pin(target.unary(greedy(&prompt(20, 1), 4)));
        assert!(timeout(SILENCE, unary.as_mut()).await.is_err(), "{mode:?}: unary waits");
        assert!(timeout(SILENCE, stream.next()).await.is_err(), "{mode:?}: the stream is open and silent");
        resume(target).await;
        assert_eq!(unary.await.unwrap().tokens(), expected.tokens(), "{mode:?}: unary, resumed");
        assert_eq!(stream.rest().await.unwrap().tokens(), expected.tokens(), "{mode:?}: stream, resumed");
    }
}

pub(crate) async fn the_state_is_reported(target: &Target) {
    assert_eq!(state(target).await, (false, false), "before");
    for mode in [PauseMode::Unspecified, PauseMode::Abort, PauseMode::Wait, PauseMode::Keep] {
        pause(target, mode.into()).await.unwrap();
        assert_eq!(state(target).await, (true, true), "{mode:?}: a paused engine also says that it sleeps");
        resume(target).await;
        assert_eq!(state(target).await, (false, false), "after {mode:?}");
    }
}

pub(crate) async fn an_unknown_mode_is_refused(target: &Target) {
    assert_eq!(pause(target, 9).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(state(target).await, (false, false), "nothing changed");
}

pub(crate) async fn resuming_twice_is_harmless(target: &Target) {
    resume(target).await;
    pause(target, PauseMode::Keep.into()).await.unwrap();
    resume(target).await;
    resume(target).await;
    assert_eq!(target.unary(greedy(&prompt(20, 1), 2)).await.unwrap().end(), "length");
}

pub(crate) async fn health_and_discovery_go_on_while_paused(target: &Target) {
    pause(target, PauseMode::Keep.into()).await.unwrap();
    assert_eq!(health::check(target, "vllm.Inference").await, Ok(ServingStatus::Serving));
    target.control().get_server_info(GetServerInfoRequest {}).await.unwrap();
    let invalid = greedy(&[], 2);
    assert_eq!(target.refusal(invalid).await, Ok(Code::InvalidArgument), "checks do not wait");
    resume(target).await;
}
