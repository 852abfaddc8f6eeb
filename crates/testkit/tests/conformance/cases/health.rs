//! Whether the engine says that it lives.

use tito_test_support::wait::within;
use tonic::{Code, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::raw;
use crate::target::Target;

/// The whole server, and each of its services.
const NAMES: [&str; 3] = ["", "vllm.Inference", "vllm.Control"];

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

/// What a check answers, for other areas too.
pub(crate) async fn check(target: &Target, service: &str) -> Result<ServingStatus, Code> {
    let reply = HealthClient::new(target.channel()).check(about(service)).await;
    reply.map(|reply| reply.get_ref().status()).map_err(|status| status.code())
}

pub(crate) async fn the_whole_and_both_services_are_serving(target: &Target) {
    for name in NAMES {
        assert_eq!(check(target, name).await, Ok(ServingStatus::Serving), "{name:?}");
    }
}

pub(crate) async fn an_unknown_service_is_not_found(target: &Target) {
    for name in ["nope", "vllm", "vllm.inference", "grpc.health.v1.Health"] {
        assert_eq!(check(target, name).await, Err(Code::NotFound), "{name:?}");
        let watched = HealthClient::new(target.channel()).watch(about(name)).await;
        assert_eq!(watched.map(|_| ()).unwrap_err().code(), Code::NotFound, "watch {name:?}");
    }
}

/// Watches a service that is serving.
pub(crate) async fn watch(target: &Target, service: &str) -> Streaming<HealthCheckResponse> {
    let watched = HealthClient::new(target.channel()).watch(about(service)).await;
    let mut watched = watched.unwrap().into_inner();
    assert_eq!(next(&mut watched).await, ServingStatus::Serving, "{service:?}");
    watched
}

/// The next status that is pushed.
pub(crate) async fn next(watched: &mut Streaming<HealthCheckResponse>) -> ServingStatus {
    let message = within("the next status", watched.message()).await.unwrap();
    message.expect("a watch goes on").status()
}

pub(crate) async fn a_watch_begins_with_the_present_status(target: &Target) {
    for name in NAMES {
        watch(target, name).await;
    }
}

pub(crate) async fn http_health_is_an_empty_200(target: &Target) {
    let address = target.http.as_deref().expect("the case needs HTTP");
    assert_eq!(raw::get(address, "/health").await, (200, String::new()));
}

pub(crate) async fn http_lists_every_served_name(target: &Target) {
    let address = target.http.as_deref().expect("the case needs HTTP");
    let (status, body) = raw::get(address, "/v1/models").await;
    assert_eq!(status, 200);
    let list: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let models = list["data"].as_array().expect("a list of models");
    let names: Vec<&str> = models.iter().filter_map(|model| model["id"].as_str()).collect();
    assert_eq!(names, target.facts.names);
    for model in models {
        assert_eq!(model["max_model_len"], target.facts.context, "{}", model["id"]);
    }
}
