//! Recorded Generate calls, read from the vendored files.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use prost::Message;
use serde_json::Value;
use vllm_proto::GenerateRequest;

/// Where the recordings lie, from this crate's folder.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/vllm-0.32");

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
    let mut fixtures: Vec<Fixture> = ["grpc-generate", "light"].into_iter().flat_map(folder).collect();
    fixtures.sort_by(|a, b| a.name.cmp(&b.name));
    fixtures
}

fn folder(name: &str) -> Vec<Fixture> {
    let path = PathBuf::from(ROOT).join(name);
    let entries = std::fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let files = entries.map(|entry| entry.expect("a readable folder").path());
    let files = files.filter(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.filter_map(|file| read(name, &file)).collect()
}

fn read(folder: &str, file: &Path) -> Option<Fixture> {
    let text = std::fs::read_to_string(file).expect("a readable file");
    let json: Value = serde_json::from_str(&text).expect("a recording is JSON");
    let request = &json["request"];
    let streaming = match request["method"].as_str()? {
        "/vllm.Inference/Generate" => false,
        "/vllm.Inference/GenerateStream" => true,
        _ => return None,
    };
    let wire = request["wire_b64"].as_str().map(decode);
    let pair = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()));
    let response = &json["response"];
    let error = &json["error"];
    Some(Fixture {
        name: format!("{folder}/{}", json["name"].as_str()?),
        streaming,
        metadata: list(&request["metadata"]).iter().filter_map(pair).collect(),
        json: request["message"].clone(),
        request: wire.map(|wire| GenerateRequest::decode(wire).expect("a recorded request decodes")),
        replies: list(&response["wire_b64"]).iter().filter_map(Value::as_str).map(decode).collect(),
        messages: list(&response["messages"]).to_vec(),
        status: (
            error["number"].as_i64().unwrap_or_default() as i32,
            error["message"].as_str().unwrap_or_default().to_owned(),
        ),
    })
}

/// The items of an array; none when there is no array.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn decode(base64: &str) -> Bytes {
    BASE64_STANDARD.decode(base64).expect("wire_b64 is base64").into()
}
