//! Calls that end early: the client leaves, a deadline passes, `Control.Abort`.

use std::time::Duration;

use tito_mock::{AbortCause, MockConfig, RequestState, Timing};
use tonic::{Code, Request};
use vllm_proto::finish_info::FinishReason;
use vllm_proto::{AbortRequest, GenerateRequest, StoppingCriteria};

use crate::support::{Running, assert_code, drain, finish, ids, outputs, prompt, request, wait_for, within};

/// One request at a time, slow enough to be caught.
fn slow() -> MockConfig {
    MockConfig {
        max_num_seqs: 1,
        timing: Timing { step: Duration::from_millis(5), speed: 1.0, ..Timing::INSTANT },
        ..MockConfig::new()
    }
}

fn cause(mock: &Running, request_id: &str) -> RequestState {
    let entries = mock.handle.requests();
    entries.iter().find(|entry| entry.request_id == request_id).unwrap().state()
}

#[tokio::test]
async fn a_dropped_stream_aborts_the_running_and_the_queued_request() {
    let mock = Running::start(slow()).await;
    let mut client = mock.inference().await;
    let mut running =
        client.generate_stream(request("running", &prompt(1, 20), 2000)).await.unwrap().into_inner();
    within("a first token", running.message()).await.unwrap();
    let queued = client.generate_stream(request("queued", &prompt(2, 20), 2000)).await.unwrap();
    mock.wait_for_state("running", "running").await;
    mock.wait_for_state("queued", "queued").await;
    drop(queued);
    mock.wait_for_state("queued", "aborted").await;
    drop(running);
    mock.wait_for_state("running", "aborted").await;
    let disconnected = RequestState::Aborted(AbortCause::Disconnected);
    assert_eq!((cause(&mock, "queued"), cause(&mock, "running")), (disconnected, disconnected));
    let next = client.generate(request("next", &prompt(3, 20), 2)).await.unwrap().into_inner();
    assert_eq!(outputs(next).num_tokens, 2, "the place is free again");
}

#[tokio::test]
async fn a_dropped_unary_call_aborts_the_running_and_the_queued_request() {
    let mock = Running::start(slow()).await;
    let client = mock.inference().await;
    let start = |id: &'static str| {
        let mut client = client.clone();
        let mut calls = tokio::task::JoinSet::new();
        calls.spawn(async move { client.generate(request(id, &prompt(1, 20), 2000)).await });
        calls
    };
    let running = start("running");
    mock.wait_for_state("running", "running").await;
    let queued = start("queued");
    mock.wait_for_state("queued", "queued").await;
    drop(queued);
    mock.wait_for_state("queued", "aborted").await;
    drop(running);
    mock.wait_for_state("running", "aborted").await;
}

#[tokio::test]
async fn a_deadline_aborts_the_request() {
    let mock = Running::start(slow()).await;
    let mut client = mock.inference().await;
    let mut asked = Request::new(request("late", &prompt(1, 20), 2000));
    asked.set_timeout(Duration::from_millis(50));
    assert_code(client.generate(asked).await, Code::Cancelled);
    mock.wait_for_state("late", "aborted").await;
}

#[tokio::test]
async fn a_dropped_connection_aborts_everything_on_it() {
    let mock = Running::start(slow()).await;
    let mut streams = Vec::new();
    let mut client = mock.inference().await;
    for index in 0..4 {
        let asked = request(&format!("r{index}"), &prompt(index, 20), 2000);
        streams.push(client.generate_stream(asked).await.unwrap());
    }
    drop((client, streams));
    let all = || mock.handle.requests().iter().all(|entry| entry.state().is_final());
    wait_for("all requests aborted", all).await;
    assert_eq!(mock.json("/load").await["server_load"], 0);
}

#[tokio::test]
async fn control_abort_ends_every_call_with_the_id_and_no_other() {
    let mock = Running::start(MockConfig { max_num_seqs: 8, ..slow() }).await;
    let (mut client, mut control) = (mock.inference().await, mock.control().await);
    let ask = |id| request(id, &prompt(1, 20), 60);
    let mut one = client.generate_stream(ask("same")).await.unwrap().into_inner();
    let two = client.generate_stream(ask("same")).await.unwrap().into_inner();
    let other = client.generate_stream(ask("other")).await.unwrap().into_inner();
    within("the prompt", one.message()).await.unwrap();
    let first = within("a token", one.message()).await.unwrap().unwrap();
    let request_ids = ["same", "unknown"].map(str::to_owned).to_vec();
    control.abort(AbortRequest { request_ids }).await.unwrap();
    let (messages, end) = drain(one).await;
    assert!(end.is_none(), "an abort is no error");
    let last = messages.last().unwrap().outputs.clone().unwrap();
    assert_eq!((last.num_tokens, last.text.as_str(), last.token_ids.len()), (0, "", 0));
    assert_eq!(finish(&last).finish_reason, FinishReason::Aborted as i32);
    let delivered = ids(&messages).len() + outputs(first).token_ids.len();
    assert_eq!(finish(&last).num_output_tokens as usize, delivered);
    let (messages, end) = drain(two).await;
    assert!(end.is_none());
    assert_eq!(
        finish(messages.last().unwrap().outputs.as_ref().unwrap()).finish_reason,
        FinishReason::Aborted as i32
    );
    let (messages, _) = drain(other).await;
    assert_eq!(ids(&messages).len(), 60);
    assert_eq!(cause(&mock, "same"), RequestState::Aborted(AbortCause::Control));
}

#[tokio::test]
async fn an_aborted_unary_call_returns_what_there_is() {
    let mock = Running::start(slow()).await;
    let (mut client, mut control) = (mock.inference().await, mock.control().await);
    let call = client.generate(request("r", &prompt(1, 20), 2000));
    let abort = async {
        mock.wait_for_state("r", "running").await;
        let three = || mock.handle.requests()[0].output_tokens() >= 3;
        wait_for("three tokens", three).await;
        control.abort(AbortRequest { request_ids: vec!["r".to_owned()] }).await.unwrap();
    };
    let (reply, ()) = tokio::join!(call, abort);
    let output = outputs(reply.unwrap().into_inner());
    assert!(output.num_tokens >= 3);
    assert_eq!(output.token_ids.len() as u32, output.num_tokens);
    assert_eq!(finish(&output).finish_reason, FinishReason::Aborted as i32);
    assert_eq!(finish(&output).num_output_tokens, output.num_tokens);
}

#[tokio::test]
async fn a_stop_string_stops_the_engine_too() {
    let mock = Running::start(slow()).await;
    let mut client = mock.inference().await;
    let asked = |id: &str, stop_strings| GenerateRequest {
        stopping: Some(StoppingCriteria {
            max_new_tokens: 1000,
            stop_strings,
            ..StoppingCriteria::default()
        }),
        ..request(id, &prompt(1, 20), 0)
    };
    let mut free = client.generate_stream(asked("free", Vec::new())).await.unwrap().into_inner();
    let mut text = String::new();
    while text.chars().count() < 6 {
        let message = within("text", free.message()).await.unwrap().unwrap();
        text.push_str(message.outputs.as_ref().map_or("", |output| output.text.as_str()));
    }
    drop(free);
    let reply = client.generate(asked("stopped", vec![text.clone()])).await.unwrap().into_inner();
    assert_eq!(finish(&outputs(reply)).finish_reason, FinishReason::Stop as i32);
    mock.wait_for_state("stopped", "aborted").await;
    assert_eq!(cause(&mock, "stopped"), RequestState::Aborted(AbortCause::StopString));
}
