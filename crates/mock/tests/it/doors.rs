//! Refusing and draining: faults that hold for everybody while they are set.

use std::io::ErrorKind;

use tito_mock::{Fault, FaultSpec, MockConfig};
use tito_test_support::wait::{wait_for, wait_until, within};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;

use crate::support::{Running, drain, ids, prompt, refusal, request, slow};

async fn refused(mock: &Running) {
    let refused = async || {
        let error = TcpStream::connect(mock.grpc).await.err()?;
        (error.kind() == ErrorKind::ConnectionRefused).then_some(())
    };
    wait_for("a refused connection", refused).await;
}

async fn accepted(mock: &Running) {
    wait_for("an accepted connection", async || TcpStream::connect(mock.grpc).await.ok()).await;
}

fn one() -> vllm_proto::GenerateRequest {
    request("one", &prompt(1, 20), 1)
}

#[tokio::test]
async fn refusing_shuts_the_door_and_opens_it_again() {
    let mock = Running::start(MockConfig::new()).await;
    let mut client = mock.inference().await;
    mock.handle.add_fault(FaultSpec::new(Fault::Refuse)).unwrap();
    refused(&mock).await;
    assert_eq!(refusal(client.generate(one()).await), Code::Unavailable);
    assert_eq!(mock.http("DELETE", "/mock/faults", "").await.0, 204);
    accepted(&mock).await;
    assert_eq!(mock.generate(one()).await.num_tokens, 1);
}

#[tokio::test]
async fn draining_finishes_what_runs() {
    let mock = Running::start(slow()).await;
    let (mut client, mut health) = (mock.inference().await, mock.health().await);
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    let mut status = async || within("health", watch.message()).await.unwrap().unwrap().status;
    assert_eq!(status().await, 1);
    let stream = mock.open(request("r", &prompt(1, 20), 60)).await;
    mock.wait_for_state("r", "running").await;
    let id = mock.handle.add_fault(FaultSpec::new(Fault::Drain)).unwrap();
    assert_eq!(status().await, 2);
    assert_eq!(refusal(client.generate(one()).await), Code::Unavailable);
    refused(&mock).await;
    let (messages, end) = drain(stream).await;
    assert!(end.is_none());
    assert_eq!(ids(&messages).len(), 60);
    assert_eq!(mock.http("DELETE", &format!("/mock/faults?id={id}"), "").await.0, 204);
    assert_eq!(status().await, 1);
    accepted(&mock).await;
}

#[tokio::test]
async fn a_killed_mock_resets_what_is_connected() {
    let mut mock = Running::start(MockConfig::new()).await;
    let mut stream = TcpStream::connect(mock.grpc).await.unwrap();
    let mut client = mock.inference().await;
    mock.handle.kill();
    assert!(client.generate(one()).await.is_err());
    let mut bytes = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut bytes);
    let reset = within("the reset", read).await.unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    mock.exit().await;
    wait_until("no entries", || mock.handle.requests().is_empty()).await;
}
