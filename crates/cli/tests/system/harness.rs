//! Starting the binary, talking HTTP to it, and waiting for states.

mod files;
mod media;
mod mock;
mod process;
mod relay;
mod serve;

pub(crate) use files::Files;
pub(crate) use media::tensors;
pub(crate) use mock::{Entry, MockEngine};
pub(crate) use process::{Args, Env, Ran, Tito, run};
pub(crate) use relay::Relay;
pub(crate) use serve::{Serve, served};
pub(crate) use tito_test_support::http::{Call, Reply, Tls, assert_envelope};
pub(crate) use tito_test_support::wait::wait_for;

/// The route for exact ids.
pub(crate) const GENERATE: &str = "/inference/v1/generate";
/// The route for text from ids.
pub(crate) const COMPLETIONS: &str = "/v1/completions";

/// What makes an engine publish its KV events, and replay them.
pub(crate) const EVENTS: &[&str] = &[
    "--kv-events-config",
    r#"{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}"#,
];

/// A greedy request for one token, with a prompt of three blocks of 32 tokens and a bit, unlike that of another number.
pub(crate) fn three_blocks(number: u32) -> serde_json::Value {
    let tokens: Vec<u32> = (0..100).map(|at| 1 + (number * 37 + at * 11) % 900).collect();
    serde_json::json!({ "token_ids": tokens, "sampling_params": { "max_tokens": 1, "temperature": 0.0 } })
}

/// A body for the generate route.
pub(crate) fn generate(id: &str, max_tokens: u32, stream: bool) -> serde_json::Value {
    serde_json::json!({
        "token_ids": [11, 12, 13],
        "sampling_params": { "max_tokens": max_tokens },
        "request_id": id,
        "stream": stream,
    })
}
