//! Recorded Generate calls, read from the vendored files.

use bytes::Bytes;
use prost::Message;
use serde_json::Value;
pub(crate) use tito_test_support::fixtures::list;
use tito_test_support::fixtures::{GrpcCall, grpc, names};
use vllm_proto::GenerateRequest;

/// One recorded call.
#[derive(Debug, Clone)]
pub(crate) struct Fixture {
    /// `folder/name`.
    pub(crate) name: String,
    pub(crate) streaming: bool,
    pub(crate) metadata: Vec<(String, String)>,
    /// The message as JSON: what its Structs held is read from here.
    pub(crate) json: Value,
    /// The message; absent when the recording keeps no bytes of it.
    pub(crate) request: Option<GenerateRequest>,
    /// The bytes of every reply message.
    pub(crate) replies: Vec<Bytes>,
    /// The replies as JSON.
    pub(crate) messages: Vec<Value>,
    /// How the call ended: code and message; 0 when it succeeded.
    pub(crate) status: (i32, String),
}

/// Every recorded Generate and GenerateStream call, by name.
pub(crate) fn generate_calls() -> Vec<Fixture> {
    let calls = ["grpc-generate", "light"]
        .into_iter()
        .flat_map(|folder| names(folder).into_iter().filter_map(move |name| grpc(folder, &name)));
    calls.filter_map(fixture).collect()
}

fn fixture(call: GrpcCall) -> Option<Fixture> {
    let streaming = match call.method.as_str() {
        "/vllm.Inference/Generate" => false,
        "/vllm.Inference/GenerateStream" => true,
        _ => return None,
    };
    Some(Fixture {
        name: call.name,
        streaming,
        metadata: call.metadata,
        json: call.message,
        request: call.request.map(|wire| GenerateRequest::decode(wire).expect("a recorded request decodes")),
        replies: call.replies,
        messages: call.messages,
        status: (call.code, call.status_message),
    })
}
