//! Refusing and draining: faults that hold for everybody while they are set.

use std::io::ErrorKind;

use tito_mock::{Fault, FaultSpec, MockConfig, Timing};
use tito_test_support::wait::{wait_for, wait_until, within};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;

use crate::support::{Running, assert_code, drain, ids, outputs, prompt, request};

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

#[tokio::test]
async fn refusing_shuts_the_door_and_opens_it_again() {
    let mock = Running::start(MockConfig::new()).await;
    let mut client = mock.inference().await;
    mock.handle.add_fault(FaultSpec::new(Fault::Refuse)).unwrap();
    refused(&mock).await;
    assert_code(client.generate(request("r", &prompt(1, 20), 1)).await, Code::Unavailable);
    assert_eq!(mock.http("DELETE", "/mock/faults", "").await.0, 204);
    accepted(&mock).await;
    let reply = mock.inference().await.generate(request("r", &prompt(1, 20), 1)).await.unwrap();
    assert_eq!(outputs(reply.into_inner()).num_tokens, 1);
}

#[tokio::test]
async fn draining_finishes_what_runs() {
    let timing = Timing { step: std::time::Duration::from_millis(2), speed: 1.0, ..Timing::INSTANT };
    let mock = Running::start(MockConfig { timing, ..MockConfig::new() }).await;
    let mut client = mock.inference().await;
    let mut health = mock.health().await;
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(within("health", watch.message()).await.unwrap().unwrap().status, 1);
    let stream = client.generate_stream(request("r", &prompt(1, 20), 60)).await.unwrap().into_inner();
    mock.wait_for_state("r", "running").await;
    let id = mock.handle.add_fault(FaultSpec::new(Fault::Drain)).unwrap();
    assert_eq!(within("health", watch.message()).await.unwrap().unwrap().status, 2);
    assert_code(client.generate(request("late", &prompt(1, 20), 1)).await, Code::Unavailable);
    refused(&mock).await;
    let (messages, end) = drain(stream).await;
    assert!(end.is_none());
    assert_eq!(ids(&messages).len(), 60);
    assert_eq!(mock.http("DELETE", &format!("/mock/faults?id={id}"), "").await.0, 204);
    assert_eq!(within("health", watch.message()).await.unwrap().unwrap().status, 1);
    accepted(&mock).await;
}

#[tokio::test]
async fn a_killed_mock_resets_what_is_connected() {
    let mut mock = Running::start(MockConfig::new()).await;
    let mut stream = TcpStream::connect(mock.grpc).await.unwrap();
    let connected = mock.inference().await;
    mock.handle.kill();
    let mut client = connected;
    assert!(client.generate(request("r", &prompt(1, 20), 1)).await.is_err());
    let mut byte = [0; 64];
    let read = async {
        loop {
            match tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(error.kind()),
            }
        }
    };
    assert_eq!(within("the reset", read).await, Some(ErrorKind::ConnectionReset));
    mock.exit().await;
    wait_until("no entries", || mock.handle.requests().is_empty()).await;
}
