//! The requests that were recorded with vLLM's HTTP server, sent to ours: what it answered, we answer.
//!
//! The mock draws other tokens than the recorded model, so ids and texts are not compared; statuses, shapes, finish
//! reasons, counts and every member of an error are.

mod errors;
mod exceptions;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tito_test_support::fixtures;

use crate::harness::{COMPLETIONS, Call, GENERATE, MockEngine, Reply, Serve, assert_envelope};

/// Routes of the recorded server that we have too, and one that neither has.
const PATHS: [&str; 4] = [GENERATE, COMPLETIONS, "/v1/models", "/nope"];

/// Keys that vLLM's gRPC services give us no value for: its HTTP server talks to the engine directly.
const NOT_OVER_GRPC: [&str; 2] = ["weight_versions", "completion_tokens_details"];

struct Recording {
    name: String,
    request: Value,
    response: Value,
}

fn recordings() -> Vec<Recording> {
    let read = |name: String| {
        let mut recording = fixtures::json("http-rs", &name);
        let (request, response) = (recording["request"].take(), recording["response"].take());
        Recording { name, request, response }
    };
    let ours = |recording: &Recording| PATHS.contains(&recording.request["path"].as_str().unwrap());
    fixtures::names("http-rs").into_iter().map(read).filter(ours).collect()
}

impl Recording {
    /// The recorded request, for our server. Some bodies were too large to keep.
    fn call(&self, serve: &Serve) -> Option<Call> {
        let path = self.request["path"].as_str().unwrap();
        let mut call = Call::get(serve.address, path).method(self.request["method"].as_str().unwrap());
        let headers = self.request["headers"].as_object().cloned().unwrap_or_default();
        let typed = headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
        for (name, value) in &headers {
            call = call.header(name, value.as_str().unwrap());
        }
        let (body, text) = (&self.request["body"], &self.request["body_text"]);
        let left_out = text.as_str().is_some_and(|text| text.starts_with('(') && text.ends_with(" bytes)"));
        if self.request["bytes"].is_number() || body["bytes"].is_number() || left_out {
            return None;
        }
        if !body.is_null() || !text.is_null() {
            call = if typed { call } else { call.header("content-type", "application/json") };
            call = call.body(text.as_str().map_or_else(|| body.to_string(), str::to_owned));
        }
        Some(call)
    }

    fn streamed(&self) -> bool {
        self.response["events"].is_array()
    }

    /// The recorded chunks of a stream, or the one body.
    fn chunks(&self) -> Vec<Value> {
        match &self.response["events"] {
            Value::Array(events) => events.iter().filter(|event| event.is_object()).cloned().collect(),
            _ => vec![self.response["body"].clone()],
        }
    }

    /// In what ways a reply differs from the recorded one.
    fn differences(&self, reply: &Reply) -> Vec<String> {
        let theirs = self.response["status"].as_u64().unwrap();
        if theirs != u64::from(reply.status) {
            return vec![format!("status {theirs} became {}", reply.status)];
        }
        if theirs >= 400 {
            return errors::differences(&self.response["body"]["error"], &reply.json()["error"]);
        }
        let stream = reply.header("content-type") == Some("text/event-stream");
        if stream != self.streamed() {
            return vec![format!("a stream: {} became {stream}", self.streamed())];
        }
        let (theirs, ours) = (self.chunks(), reply.chunks());
        let missing: BTreeSet<String> =
            keys_of(&theirs).difference(&keys_of(&ours)).map(|key| format!("no {key}")).collect();
        let counts = [("finish reasons", finish_reasons(&theirs), finish_reasons(&ours))]
            .into_iter()
            .chain([("usage", usage(&theirs), usage(&ours)), ("tokens", tokens(&theirs), tokens(&ours))]);
        // The recorded server counts nothing in a unary reply of the generate route; we do.
        let changed = counts.filter(|(_, theirs, ours)| !theirs.is_empty() && theirs != ours);
        let changed = changed.map(|(what, theirs, ours)| format!("{what} {theirs} became {ours}"));
        missing.into_iter().chain(changed).collect()
    }
}

/// Paths of all keys: lists are looked through, and objects keyed by token ids count as one.
fn keys_of(chunks: &[Value]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for chunk in chunks {
        add_keys("", chunk, &mut keys);
    }
    keys
}

fn add_keys(path: &str, value: &Value, keys: &mut BTreeSet<String>) {
    for item in fixtures::list(value) {
        add_keys(path, item, keys);
    }
    let fields = value.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| !NOT_OVER_GRPC.contains(&name.as_str())) {
        let id = name.bytes().all(|byte| byte.is_ascii_digit());
        let path = format!("{path}.{}", if id { "ID" } else { name });
        add_keys(&path, value, keys);
        keys.insert(path);
    }
}

fn choices(chunks: &[Value]) -> impl Iterator<Item = &Value> {
    chunks.iter().filter_map(|chunk| chunk["choices"].as_array()).flatten()
}

/// By choice, so that the order of a stream's chunks does not matter.
fn finish_reasons(chunks: &[Value]) -> String {
    let mut reasons: Vec<String> = choices(chunks)
        .filter_map(|choice| Some(format!("{}: {}", choice["index"], choice["finish_reason"].as_str()?)))
        .collect();
    reasons.sort();
    reasons.join(", ")
}

fn tokens(chunks: &[Value]) -> String {
    let ids = choices(chunks).filter_map(|choice| choice["token_ids"].as_array());
    ids.map(Vec::len).sum::<usize>().to_string()
}

fn usage(chunks: &[Value]) -> String {
    let counts = chunks.iter().rev().find(|chunk| chunk["usage"].is_object()).map(|chunk| &chunk["usage"]);
    counts.map_or_else(String::new, |usage| {
        format!("{}+{}", usage["prompt_tokens"], usage["completion_tokens"])
    })
}

#[tokio::test]
async fn recorded_requests_get_the_answers_that_were_recorded() {
    let engine = MockEngine::of_model("dense-model", &["--served-model-name", "dense", "dense-alias"]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let (mut sent, mut surprises, mut unused) = (0, Vec::new(), exceptions::names());
    let mut errors = BTreeMap::new();
    for recording in recordings() {
        let Some(call) = recording.call(&serve) else { continue };
        let reply = call.send().await;
        sent += 1;
        assert!(reply.status < 500, "{}: {}", recording.name, reply.text());
        if reply.status >= 400 {
            errors.insert(recording.name.clone(), assert_envelope(&recording.name, &reply));
        }
        let (expected, found) = (exceptions::of(&recording.name), recording.differences(&reply));
        unused.remove(recording.name.as_str());
        if found != expected {
            surprises.push(format!("{}: {found:?}, expected {expected:?}", recording.name));
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    assert!(unused.is_empty(), "exceptions without a recording: {unused:?}");
    assert!(sent >= 75, "only {sent} recordings were found");
    errors::check(&errors);
}
