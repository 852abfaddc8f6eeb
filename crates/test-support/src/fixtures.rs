//! Recordings of the real engine: the files of `fixtures/vllm-0.32`, whose README says what is in them.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::Value;

/// A folder of recordings.
pub fn folder(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/vllm-0.32")).join(name)
}

/// The names of a folder's recordings, in order. There is at least one.
pub fn names(folder_name: &str) -> Vec<String> {
    let path = folder(folder_name);
    let files = std::fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let stem = |file: PathBuf| Some(file.file_name()?.to_str()?.strip_suffix(".json")?.to_owned());
    let mut names: Vec<String> = files.filter_map(|file| stem(file.unwrap().path())).collect();
    names.sort();
    assert!(!names.is_empty(), "{} holds no recording", path.display());
    names
}

/// A recording as it is.
pub fn json(folder_name: &str, name: &str) -> Value {
    let path = folder(folder_name).join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One recorded gRPC call.
#[derive(Debug, Clone)]
pub struct GrpcCall {
    /// `folder/name`.
    pub name: String,
    /// `/package.Service/Method`.
    pub method: String,
    /// Name and value of each header that was sent.
    pub metadata: Vec<(String, String)>,
    /// The request message as JSON.
    pub message: Value,
    /// The bytes of the request message. None when they were not kept.
    pub request: Option<Bytes>,
    /// Bytes of the request message, where only their number was kept.
    pub request_bytes: Option<u64>,
    /// The bytes of every reply message.
    pub replies: Vec<Bytes>,
    /// The reply messages as JSON.
    pub messages: Vec<Value>,
    /// The gRPC status code, 0 for OK.
    pub code: i32,
    /// The gRPC status message.
    pub status_message: String,
}

/// Reads a recording if it is one of a gRPC call; those of HTTP are not.
pub fn grpc(folder_name: &str, name: &str) -> Option<GrpcCall> {
    let json = json(folder_name, name);
    if json["transport"] != "grpc" {
        return None;
    }
    let (request, response, error) = (&json["request"], &json["response"], &json["error"]);
    let pair = |pair: &Value| (text(&pair[0]), text(&pair[1]));
    Some(GrpcCall {
        name: format!("{folder_name}/{name}"),
        method: text(&request["method"]),
        metadata: list(&request["metadata"]).iter().map(pair).collect(),
        message: request["message"].clone(),
        request: request["wire_b64"].as_str().map(base64),
        request_bytes: request["bytes"].as_u64(),
        replies: list(&response["wire_b64"]).iter().filter_map(Value::as_str).map(base64).collect(),
        messages: list(&response["messages"]).to_vec(),
        code: error["number"].as_i64().unwrap_or_default() as i32,
        status_message: error["message"].as_str().unwrap_or_default().to_owned(),
    })
}

/// The items of an array; none when there is no array.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The bytes behind base64.
pub fn base64(text: &str) -> Bytes {
    BASE64_STANDARD.decode(text).expect("base64").into()
}

/// The bytes behind pairs of hexadecimal digits.
pub fn hex(text: &str) -> Bytes {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(digits).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a recorded text").to_owned()
}

#[cfg(test)]
mod tests;
