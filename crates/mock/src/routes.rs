//! The HTTP routes a tester needs, vLLM's own and the control of faults.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::faults::FaultSpec;
use crate::grpc::{ENGINE_VERSION, reset_caches};
use crate::instance::Instance;
use crate::kv::KvState;

mod journal;
mod metrics;

/// Most bytes of a fault.
const BODY_BYTES_MAX: usize = 64 << 10;

pub(crate) fn routes(instance: Arc<Instance>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/version", get(version))
        .route("/load", get(load))
        .route("/v1/models", get(models))
        .route("/metrics", get(metrics))
        .route("/kv_event_sources", get(kv_event_sources))
        .route("/reset_prefix_cache", post(reset_prefix_cache))
        .route("/get_world_size", get(world_size))
        .route("/mock/faults", get(list_faults).post(add_fault).delete(remove_faults))
        .route("/mock/kv", get(kv))
        .route("/mock/requests", get(requests).delete(forget_requests))
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(instance)
}

fn reply(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn health(State(instance): State<Arc<Instance>>) -> StatusCode {
    if instance.lifecycle.is_dead() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}

async fn version() -> Response {
    reply(&json!({ "version": ENGINE_VERSION, "rust_frontend_version": ENGINE_VERSION }))
}

async fn load(State(instance): State<Arc<Instance>>) -> Response {
    reply(&json!({ "server_load": instance.calls.count() }))
}

async fn models(State(instance): State<Arc<Instance>>) -> Response {
    let config = &instance.config;
    let entry = |id: &str, root: &str, parent: Option<&str>, max_model_len: Option<u32>| {
        json!({
            "id": id,
            "object": "model",
            "created": instance.created,
            "owned_by": "vllm-frontend-rs",
            "root": root,
            "parent": parent,
            "max_model_len": max_model_len,
        })
    };
    let primary = config.primary_name();
    let served = std::iter::once(primary).chain(instance.aliases().iter().map(String::as_str));
    let mut data: Vec<Value> =
        served.map(|id| entry(id, &config.model, None, Some(config.max_model_len))).collect();
    let state = instance.control.lock();
    data.extend(
        state.adapters.iter().map(|(name, adapter)| entry(name, &adapter.source_path, Some(primary), None)),
    );
    drop(state);
    reply(&json!({ "object": "list", "data": data }))
}

async fn metrics(State(instance): State<Arc<Instance>>) -> Response {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::render(&instance)).into_response()
}

async fn kv_event_sources(State(instance): State<Arc<Instance>>) -> Response {
    let mut sources = Map::new();
    for (settings, rank) in instance.kv_sources.iter().zip(instance.config.owned_ranks()) {
        let settings = serde_json::to_value(settings).expect("a flat struct becomes JSON");
        sources.insert(rank.to_string(), settings);
    }
    reply(&Value::Object(sources))
}

/// vLLM's query, less what is for a connector's cache, which is not here.
#[derive(Debug, Deserialize)]
struct Reset {
    reset_running_requests: Option<String>,
}

/// A flag of a query as vLLM's server reads it.
fn flag(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "t" | "y" => Some(true),
        "false" | "0" | "no" | "off" | "f" | "n" => Some(false),
        _ => None,
    }
}

async fn reset_prefix_cache(State(instance): State<Arc<Instance>>, Query(reset): Query<Reset>) -> Response {
    let Some(running) = flag(reset.reset_running_requests.as_deref().unwrap_or("false")) else {
        return (StatusCode::BAD_REQUEST, "reset_running_requests must be true or false").into_response();
    };
    match reset_caches(&instance, running).await {
        Ok(success) => reply(&json!({ "success": success })),
        Err(status) => {
            let body = json!({ "error": { "message": status.message(), "code": "internal_error" } });
            (StatusCode::INTERNAL_SERVER_ERROR, reply(&body)).into_response()
        }
    }
}

#[derive(Debug, Deserialize)]
struct World {
    include_dp: Option<bool>,
}

async fn world_size(State(instance): State<Arc<Instance>>, Query(world): Query<World>) -> Response {
    let ranks = if world.include_dp.unwrap_or(true) { instance.config.data_parallel_size } else { 1 };
    reply(&json!({ "world_size": ranks }))
}

async fn kv(State(instance): State<Arc<Instance>>) -> Response {
    let ranks = instance.config.owned_ranks().filter_map(|rank| {
        let KvState { last_seq, resident } = instance.kv_log(rank)?.state();
        Some(json!({ "rank": rank, "last_seq": last_seq, "resident": resident }))
    });
    reply(&json!({ "ranks": ranks.collect::<Vec<Value>>() }))
}

async fn list_faults(State(instance): State<Arc<Instance>>) -> Response {
    let faults: Vec<Value> = instance
        .faults
        .list()
        .iter()
        .map(|fault| {
            let mut body = fault.spec.to_json();
            body["id"] = json!(fault.id);
            body
        })
        .collect();
    reply(&json!({ "faults": faults }))
}

async fn add_fault(State(instance): State<Arc<Instance>>, body: String) -> Response {
    let added = FaultSpec::parse(&body).and_then(|spec| instance.faults.add(spec));
    match added {
        Ok(id) => {
            instance.apply_doors();
            reply(&json!({ "id": id }))
        }
        Err(error) => {
            let body = json!({ "error": { "message": error.to_string(), "code": "bad_fault" } });
            (StatusCode::BAD_REQUEST, reply(&body)).into_response()
        }
    }
}

#[derive(Debug, Deserialize)]
struct Which {
    id: Option<u64>,
}

async fn remove_faults(State(instance): State<Arc<Instance>>, Query(which): Query<Which>) -> StatusCode {
    instance.faults.remove(which.id);
    instance.apply_doors();
    StatusCode::NO_CONTENT
}

async fn requests(State(instance): State<Arc<Instance>>) -> Response {
    let entries: Vec<Value> = instance.journal.entries().iter().map(|entry| journal::entry(entry)).collect();
    reply(&json!({ "requests": entries }))
}

async fn forget_requests(State(instance): State<Arc<Instance>>) -> StatusCode {
    instance.journal.clear();
    StatusCode::NO_CONTENT
}
