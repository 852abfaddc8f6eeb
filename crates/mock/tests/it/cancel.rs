//! What the journal says of calls that end early. That they end is in the conformance suite of `tito-testkit`.

use std::time::Duration;

use tito_mock::{AbortCause, MockConfig, RequestState};
use tito_test_support::wait::{wait_until, within};
use vllm_proto::finish_info::FinishReason;
use vllm_proto::{AbortRequest, GenerateRequest, StoppingCriteria};

use crate::support::{Running, drain, finish, prompt, request, slow};

async fn one_at_a_time() -> Running {
    Running::start(MockConfig { max_num_seqs: 1, ..slow() }).await
}

#[tokio::test]
async fn a_dropped_stream_aborts_the_running_and_the_queued_request() {
    let mock = one_at_a_time().await;
    let mut running = mock.open(request("running", &prompt(1, 20), 2000)).await;
    within("a first token", running.message()).await.unwrap();
    let queued = mock.open(request("queued", &prompt(2, 20), 2000)).await;
    mock.wait_for_state("running", "running").await;
    mock.wait_for_state("queued", "queued").await;
    for (id, stream) in [("queued", queued), ("running", running)] {
        drop(stream);
        mock.wait_for_state(id, "aborted").await;
        assert_eq!(mock.state(id), RequestState::Aborted(AbortCause::Disconnected));
    }
    let next = mock.generate(request("next", &prompt(3, 20), 2)).await;
    assert_eq!(next.num_tokens, 2, "the place is free again");
}

#[tokio::test]
async fn the_journal_tells_an_abort_from_a_deadline() {
    let mock = one_at_a_time().await;
    let stream = mock.open(request("r", &prompt(1, 20), 2000)).await;
    mock.wait_for_state("r", "running").await;
    mock.control().await.abort(AbortRequest { request_ids: vec!["r".to_owned()] }).await.unwrap();
    assert!(drain(stream).await.1.is_none(), "an abort is no error");
    assert_eq!(mock.state("r"), RequestState::Aborted(AbortCause::Control));
    let mut late = tonic::Request::new(request("late", &prompt(1, 20), 2000));
    // Long enough to reach the engine on a busy machine, and a fourth of what it asks for.
    late.set_timeout(Duration::from_secs(2));
    mock.inference().await.generate(late).await.unwrap_err();
    mock.wait_for_state("late", "aborted").await;
}

#[tokio::test]
async fn a_dropped_connection_aborts_everything_on_it() {
    let mock = one_at_a_time().await;
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
    let mock = one_at_a_time().await;
    let asked = |id: &str, stop_strings| {
        let stopping = StoppingCriteria { max_new_tokens: 1000, stop_strings, ..StoppingCriteria::default() };
        GenerateRequest { stopping: Some(stopping), ..request(id, &prompt(1, 20), 0) }
    };
    let mut free = mock.open(asked("free", Vec::new())).await;
    let mut text = String::new();
    while text.chars().count() < 6 {
        let message = within("text", free.message()).await.unwrap().unwrap();
        text.push_str(message.outputs.as_ref().map_or("", |output| output.text.as_str()));
    }
    drop(free);
    let stopped = mock.generate(asked("stopped", vec![text])).await;
    assert_eq!(finish(&stopped).finish_reason, FinishReason::Stop as i32);
    mock.wait_for_state("stopped", "aborted").await;
    assert_eq!(mock.state("stopped"), RequestState::Aborted(AbortCause::StopString));
}
