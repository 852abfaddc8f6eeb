//! Starting the binary, talking HTTP to it, and waiting for states.

mod media;
mod mock;
mod process;
mod relay;
mod serve;

pub(crate) use media::tensors;
pub(crate) use mock::{Entry, MockEngine};
pub(crate) use process::{Args, Env, Ran, Tito, run};
pub(crate) use relay::Relay;
pub(crate) use serve::Serve;
pub(crate) use tito_test_support::http::{Call, InFlight as Asked, Reply, Tls, assert_envelope};
pub(crate) use tito_test_support::wait::wait_for;

/// The route for exact ids.
pub(crate) const GENERATE: &str = "/inference/v1/generate";
/// The route for text from ids.
pub(crate) const COMPLETIONS: &str = "/v1/completions";

/// A body for the generate route.
pub(crate) fn generate(id: &str, max_tokens: u32, stream: bool) -> serde_json::Value {
    serde_json::json!({
        "token_ids": [11, 12, 13],
        "sampling_params": { "max_tokens": max_tokens },
        "request_id": id,
        "stream": stream,
    })
}
