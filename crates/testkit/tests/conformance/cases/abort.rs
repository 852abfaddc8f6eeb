//! `Control.Abort`: the calls end in order, with what they have.

use std::time::Duration;

use tito_test_support::wait::within;
use tokio::time::timeout;
use vllm_proto::{AbortRequest, GenerateRequest, PauseMode};

use super::cancel::{expect_idle, occupy};
use crate::ask::{Ask, greedy, long, prompt};
use crate::reply::{Reading, Reply};
use crate::target::Target;

/// How long a call is watched that must not end by itself.
const RUNNING: Duration = Duration::from_millis(400);

pub(crate) async fn abort(target: &Target, ids: &[&str]) {
    let request_ids = ids.iter().copied().map(str::to_owned).collect();
    target.control().abort(AbortRequest { request_ids }).await.unwrap();
}

/// Reads to the end of an aborted stream, whose last message holds no tokens; text that was held back comes with it.
async fn aborted(mut reading: Reading) -> Reply {
    let mut last = None;
    while let Some(output) = reading.next().await.unwrap() {
        last = Some(output);
    }
    let last = last.expect("an aborted stream has a last message");
    assert_eq!(last.num_tokens, 0, "the last message holds no tokens");
    let reply = reading.rest().await.unwrap();
    assert_eq!(reply.end(), "aborted");
    reply
}

pub(crate) async fn a_running_stream_ends_aborted(target: &Target) {
    let reading = occupy(target, "abort-stream").await;
    abort(target, &["abort-stream"]).await;
    let reply = aborted(reading).await;
    assert!(!reply.tokens().is_empty(), "the tokens before stay valid");
}

pub(crate) async fn a_running_unary_call_returns_its_tokens(target: &Target) {
    let mut call = Box::pin(target.unary(long(target, "abort-unary")));
    assert!(timeout(RUNNING, call.as_mut()).await.is_err(), "the call was to last");
    abort(target, &["abort-unary"]).await;
    let reply = within("the end", call).await.unwrap();
    assert_eq!(reply.end(), "aborted");
    let (tokens, budget) = (reply.output.num_tokens, target.facts.context - 100);
    assert!((1..budget).contains(&tokens), "{tokens} tokens of {budget}");
    assert_eq!(reply.prompt.num_prompt_tokens, 40);
}

/// A request in the queue of an engine that is paused.
async fn queued(target: &Target, id: &str) -> GenerateRequest {
    target.pause(PauseMode::Keep, false).await.unwrap();
    greedy(&prompt(20, 1), 4).with(|request| request.request_id = id.into())
}

pub(crate) async fn a_queued_stream_ends_aborted(target: &Target) {
    let reading = target.open_stream(queued(target, "queued-stream").await).await.unwrap();
    abort(target, &["queued-stream"]).await;
    let reply = aborted(reading).await;
    assert_eq!(reply.output.num_tokens, 0, "it never ran");
}

pub(crate) async fn a_queued_unary_call_ends_aborted(target: &Target) {
    let mut call = Box::pin(target.unary(queued(target, "queued-unary").await));
    assert!(timeout(RUNNING, call.as_mut()).await.is_err(), "nothing runs while paused");
    abort(target, &["queued-unary"]).await;
    let reply = within("the end", call).await.unwrap();
    assert_eq!((reply.end().as_str(), reply.output.num_tokens), ("aborted", 0));
}

/// It goes on: more messages come than were on their way.
async fn expect_running(reading: &mut Reading) {
    for _ in 0..20 {
        let output = reading.next().await.unwrap().expect("the stream goes on");
        assert_eq!(output.finish_info, None, "nobody aborted this one");
    }
}

pub(crate) async fn unknown_ids_and_no_ids_change_nothing(target: &Target) {
    let mut reading = occupy(target, "untouched").await;
    abort(target, &[]).await;
    abort(target, &["unknown", ""]).await;
    expect_running(&mut reading).await;
}

pub(crate) async fn every_call_with_the_id_ends(target: &Target) {
    let first = occupy(target, "twins").await;
    let second = target.open_stream(long(target, "twins")).await.unwrap();
    // Where one request runs at a time, the second twin and this one are in the queue.
    let mut other = target.open_stream(long(target, "single")).await.unwrap();
    abort(target, &["twins"]).await;
    aborted(first).await;
    aborted(second).await;
    expect_running(&mut other).await;
}

pub(crate) async fn only_the_whole_id_counts(target: &Target) {
    let mut reading = occupy(target, "whole-id").await;
    abort(target, &["whole", "whole-id-", "WHOLE-ID"]).await;
    expect_running(&mut reading).await;
}

pub(crate) async fn an_abort_frees_the_engine(target: &Target) {
    let reading = occupy(target, "freed").await;
    abort(target, &["freed"]).await;
    expect_idle(target, "a stream was aborted").await;
    aborted(reading).await;
}
