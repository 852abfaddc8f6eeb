//! Recorded answers of vLLM 0.32 (`fixtures/vllm-0.32-http.jsonl`): the same body, over the same output, gives a
//! reply that holds everything of the recorded one; where the answer differs on purpose, it is listed here. Media
//! payloads in it are shortened, on which no reply depends.

use serde_json::Value;
use tito_types::{
    Candidate, Catalog, Delta, Finish, FinishReason, PromptOutput, RawJson, StopCause, TokenLogprob,
    VersionSpan,
};

use super::{COMPLETIONS, GENERATE};
use crate::testing::{context, end, events, fold, model, outcome, stream};
use crate::{BindContext, MediaCache};

const RECORDED: &str = include_str!("../../fixtures/vllm-0.32-http.jsonl");

/// Bodies that are answered otherwise than vLLM's frontends answer them, and how: the refusal's kind and field, whose
/// message has a test of its own.
const DIFFERENT: &[(&str, &str)] = &[
    // Only the engine knows its vocabulary and its cap: its own 400 is relayed.
    ("http-rs/generate-bad-out-of-vocab", "ok"),
    ("http-rs/generate-logprobs-21", "ok"),
    // The Rust frontend cannot, the Python one can.
    ("http-rs/generate-bad-top-k", "ok"),
    ("http-rs/generate-logit-bias", "ok"),
    ("http-rs/generate-n-2", "ok"),
    ("http-rs/generate-n-2-stream", "ok"),
    // Asking for ids is asking for log-probs.
    ("http-rs/generate-logprob-token-ids", "ok"),
    // The Rust frontend drops these without a word.
    ("http-rs/generate-bad-features", "MediaNotCached features.kwargs_data.image[0]"),
    ("http-rs/generate-cache-salt-bad", "Invalid cache_salt"),
    ("http-rs/generate-cache-salt-empty", "Invalid cache_salt"),
    ("http-rs/generate-output-bad-mode", "NotExpressible output_mode"),
    ("http-rs/generate-output-text", "NotExpressible output_mode"),
    ("http-rs/generate-prompt-logprob-token-ids", "NotExpressible sampling_params.prompt_logprob_token_ids"),
    ("http-rs/generate-stop-string-no-detokenize", "Invalid sampling_params.detokenize"),
    // The Python frontend's status 500 does not say what to do.
    ("http-py-media/media-features-unknown-hash", "MediaNotCached features.kwargs_data.image[0]"),
    // Over gRPC nobody tells where the media went.
    ("http-py-media/media-content-parts", "NotExpressible return_token_ids"),
];

/// Keys whose values differ on purpose or by nature.
const UNCOMPARED: [&str; 6] =
    ["request_id", "id", "created", "prompt_tokens_details", "completion_tokens_details", "output_mode"];

/// Fails where `ours` lacks something of `theirs`, except nulls of a chunk.
fn check_superset(name: &str, path: &str, ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in theirs.iter().filter(|(key, _)| !UNCOMPARED.contains(&key.as_str())) {
                let path = format!("{path}.{key}");
                if value.is_null() && path.starts_with("events") && ours.get(key).is_none() {
                    continue;
                }
                let Some(ours) = ours.get(key) else { panic!("{name}: {path} is missing") };
                check_superset(name, &path, ours, value);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{name}: {path}");
            for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                check_superset(name, &format!("{path}[{at}]"), ours, theirs);
            }
        }
        _ => assert_eq!(ours, theirs, "{name}: {path}"),
    }
}

fn ids(list: &Value) -> Vec<u32> {
    let number = |id: &Value| id.as_u64().unwrap() as u32;
    list.as_array().map(|ids| ids.iter().map(number).collect()).unwrap_or_default()
}

fn candidate(token: u32, entry: &Value) -> Candidate {
    let rank = entry["rank"].as_u64().unwrap() as u32;
    Candidate { token, logprob: entry["logprob"].as_f64().unwrap() as f32, rank }
}

/// The output that an engine must have made for a recorded choice.
fn delta(choice: &Value, cached_tokens: u32, output_tokens: &mut u32) -> Delta {
    let token_ids = ids(&choice["token_ids"]);
    *output_tokens += token_ids.len() as u32;
    let row = |entry: &Value| {
        let token = |entry: &Value| entry["token_id"].as_u64().unwrap() as u32;
        let Candidate { token: sampled, logprob, rank } = candidate(token(entry), entry);
        let candidates =
            entry["top_logprobs"].as_array().unwrap().iter().map(|rival| candidate(token(rival), rival));
        TokenLogprob { token: sampled, logprob, rank, candidates: candidates.collect() }
    };
    let logprobs = choice["logprobs"]["content"].as_array().map(|rows| rows.iter().map(row).collect());
    let index = choice["index"].as_u64().unwrap() as u32;
    let mut delta = Delta { index, token_ids, logprobs: logprobs.unwrap_or_default(), ..Delta::default() };
    choice["text"].as_str().unwrap_or_default().clone_into(&mut delta.text);
    if let Some(reason) = choice["finish_reason"].as_str() {
        let mut last = end(index, *output_tokens).finish;
        finish(last.as_mut().unwrap(), reason, choice);
        last.as_mut().unwrap().cached_tokens = Some(cached_tokens);
        delta.finish = last;
    }
    delta
}

fn finish(finish: &mut Finish, reason: &str, choice: &Value) {
    finish.reason = if reason == "stop" { FinishReason::Stop } else { FinishReason::Length };
    finish.stop = match &choice["stop_reason"] {
        Value::Number(token) => Some(StopCause::Token(token.as_u64().unwrap() as u32)),
        Value::String(text) => Some(StopCause::Text(text.clone())),
        _ => None,
    };
    finish.extras.sampling_mask =
        choice["sampling_mask"].as_array().map(|rows| rows.iter().map(ids).collect());
    let span = |span: &Value| VersionSpan {
        version: span["version"].as_str().unwrap().to_owned(),
        start: span["start"].as_u64().unwrap() as u32,
        end: span["end"].as_u64().unwrap() as u32,
    };
    finish.extras.weight_versions = choice["weight_versions"]
        .as_array()
        .map(|spans| spans.iter().map(span).collect())
        .unwrap_or_default();
}

/// What an engine must have said about the prompt of a recorded reply.
fn prompt(reply: &Value, prompt: &[u32]) -> PromptOutput {
    let row = |(at, entry): (usize, &Value)| {
        let own = prompt[at];
        let members = entry.as_object().into_iter().flatten();
        let candidates: Vec<_> = members.map(|(id, entry)| candidate(id.parse().unwrap(), entry)).collect();
        let own = candidates.iter().find(|candidate| candidate.token == own).copied();
        let own = own.unwrap_or(Candidate { token: prompt[at], logprob: 0.0, rank: 0 });
        TokenLogprob { token: own.token, logprob: own.logprob, rank: own.rank, candidates }
    };
    let logprobs = reply["prompt_logprobs"].as_array().map(|rows| rows.iter().enumerate().map(row).collect());
    let asked = reply["prompt_token_ids"].is_array();
    PromptOutput {
        prompt_tokens: prompt.len() as u32,
        token_ids: if asked { prompt.to_vec() } else { Vec::new() },
        logprobs: logprobs.unwrap_or_default(),
    }
}

fn check(recorded: &Value, media: &MediaCache) {
    let name = recorded["name"].as_str().unwrap();
    let media_model = name.starts_with("http-py-media/");
    let mut served = model(if media_model { &["vl"] } else { &["dense", "dense-alias"] });
    (served.max_model_len, served.n_max) = (2048, 256);
    let catalog = Catalog { models: vec![served], reasons: Vec::new() };
    let completions = recorded["path"] == "/v1/completions";
    let subject = if completions { &COMPLETIONS } else { &GENERATE };
    let body = recorded["body"].as_str().map_or_else(|| recorded["body"].to_string(), ToOwned::to_owned);
    let bound = subject.format.bind(body.as_bytes(), &BindContext { media, ..context(&catalog) });
    if let Some((_, expected)) = DIFFERENT.iter().find(|(different, _)| *different == name) {
        assert_eq!(outcome(&bound).split(": ").next(), Some(*expected), "{name}");
        return;
    }
    let Ok(mut bound) = bound else {
        assert!(recorded["status"].as_u64().unwrap() >= 400, "{name}: {}", outcome(&bound));
        return;
    };
    assert_eq!(recorded["status"], 200, "{name} was accepted");
    let token_ids = bound.requests[0].prompt.clone();
    let mut output_tokens = 0;
    if let Some(theirs) = recorded["events"].as_array() {
        let mut deltas: Vec<_> = theirs
            .iter()
            .filter_map(|event| event["choices"].get(0))
            .map(|choice| delta(choice, 64, &mut output_tokens))
            .collect();
        deltas[0].prompt = Some(Box::new(prompt(&theirs[0], &token_ids)));
        let ours = events(&stream(&mut *bound.exchange, deltas).unwrap());
        check_superset(name, "events", &Value::Array(ours), &recorded["events"]);
        return;
    }
    let theirs = &recorded["reply"];
    let mut deltas: Vec<_> =
        theirs["choices"].as_array().unwrap().iter().map(|choice| delta(choice, 64, &mut 0)).collect();
    deltas[0].prompt = Some(Box::new(prompt(theirs, &token_ids)));
    if completions {
        // The reply does not show its tokens, only their number.
        let output_tokens = theirs["usage"]["completion_tokens"].as_u64().unwrap();
        deltas[0].token_ids = vec![0; output_tokens as usize];
        deltas[0].finish.as_mut().unwrap().output_tokens = output_tokens as u32;
    }
    let extras = &mut deltas[0].finish.as_mut().unwrap().extras;
    if theirs["kv_transfer_params"].is_object() {
        extras.kv_transfer_params = Some(RawJson::new(theirs["kv_transfer_params"].to_string()));
    }
    let ours: Value = serde_json::from_str(&fold(&mut *bound.exchange, deltas).unwrap()).unwrap();
    check_superset(name, "reply", &ours, theirs);
}

#[test]
fn recorded_bodies_are_answered_with_at_least_what_vllm_answers() {
    let recorded: Vec<Value> = RECORDED.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(recorded.len(), 74);
    let media = MediaCache::new(1 << 20);
    for recorded in &recorded {
        check(recorded, &media);
    }
    for (name, _) in DIFFERENT {
        assert!(recorded.iter().any(|recorded| recorded["name"] == *name), "{name} is not recorded");
    }
}
