//! What the journal says of calls that end early. That they end is in the conformance suite of `tito-testkit`.

use std::time::Duration;

use tito_mock::{AbortCause, MockConfig, RequestState, Timing};
use tito_test_support::wait::{wait_until, within};
use vllm_proto::finish_info::FinishReason;
use vllm_proto::{AbortRequest, GenerateRequest, StoppingCriteria};

use crate::support::{Running, drain, finish, outputs, prompt, request};

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
async fn the_journal_tells_an_abort_from_a_deadline() {
    let mock = Running::start(slow()).await;
    let (mut client, mut control) = (mock.inference().await, mock.control().await);
    let stream = client.generate_stream(request("r", &prompt(1, 20), 2000)).await.unwrap().into_inner();
    mock.wait_for_state("r", "running").await;
    control.abort(AbortRequest { request_ids: vec!["r".to_owned()] }).await.unwrap();
    assert!(drain(stream).await.1.is_none(), "an abort is no error");
    assert_eq!(cause(&mock, "r"), RequestState::Aborted(AbortCause::Control));
    let mut late = tonic::Request::new(request("late", &prompt(1, 20), 2000));
    // Long enough to reach the engine on a busy machine, and a fifth of what it asks for.
    late.set_timeout(Duration::from_secs(2));
    client.generate(late).await.unwrap_err();
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
    wait_until("all requests aborted", all).await;
    assert_eq!(mock.json("/load").await["server_load"], 0);
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
