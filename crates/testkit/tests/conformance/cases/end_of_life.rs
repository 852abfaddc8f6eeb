//! How an engine ends, and what of it is still seen.

use prost_types::value::Kind as Value;
use tito_test_support::wait::within;
use tokio::net::TcpStream;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use vllm_proto::{GetModelInfoRequest, GetServerInfoRequest, IsPausedRequest, ShutdownRequest};

use super::cancel::occupy;
use super::health;
use crate::ask::{greedy, prompt, script};
use crate::raw;
use crate::target::Target;

pub(crate) async fn a_dead_engine_fails_calls_and_health_but_not_discovery(target: &Target) {
    let mut watched = health::watch(target, "vllm.Inference").await;
    let dying = script(greedy(&prompt(20, 1), 8), [("die_after", Value::NumberValue(2.0))]);
    let status = target.stream(dying).await.map(|reply| reply.end()).unwrap_err();
    assert_eq!(status.code(), Code::Internal, "the call that met it");
    assert_eq!(health::next(&mut watched).await, ServingStatus::NotServing, "pushed at once");
    for service in ["", "vllm.Inference", "vllm.Control"] {
        assert_eq!(health::check(target, service).await, Ok(ServingStatus::NotServing), "{service:?}");
    }
    assert_eq!(target.refusal(greedy(&prompt(20, 1), 2)).await, Ok(Code::Internal), "calls after it");
    let paused = target.control().is_paused(IsPausedRequest {}).await;
    assert_eq!(paused.unwrap_err().code(), Code::Internal, "control calls that need the engine");
    target.control().get_server_info(GetServerInfoRequest {}).await.unwrap();
    target.control().get_model_info(GetModelInfoRequest {}).await.unwrap();
    let http = target.http.as_deref().expect("a mock has HTTP");
    assert_eq!(raw::get(http, "/health").await.0, 503, "HTTP says so too");
    assert_eq!(raw::get(http, "/v1/models").await.0, 200, "and still lists the model");
}

async fn shut_down(target: &Target) {
    // The answer says that it was accepted; the connection may be gone before the answer.
    let _ = target.control().shutdown(ShutdownRequest {}).await;
}

pub(crate) async fn a_shutdown_is_announced_and_ends_what_runs(target: &Target) {
    let mut watched = health::watch(target, "vllm.Inference").await;
    let running = occupy(target, "running").await;
    shut_down(target).await;
    assert_eq!(health::next(&mut watched).await, ServingStatus::NotServing, "pushed at once");
    let ended = within("the end of what ran", running.rest()).await;
    let code = ended.map(|reply| reply.end()).unwrap_err().code();
    // Whichever frame the client sees first when the connection goes.
    assert!([Code::Unavailable, Code::Unknown, Code::Internal, Code::Cancelled].contains(&code), "{code:?}");
}

pub(crate) async fn a_shutdown_refuses_new_connections(target: &Target) {
    shut_down(target).await;
    let refused = async {
        while TcpStream::connect(&target.grpc).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    within("a refused connection", refused).await;
}
