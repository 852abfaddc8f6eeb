//! What a recorded reply must become, read from its JSON and not from its bytes.

use serde_json::Value;
use tito_types::{
    Candidate, Delta, EngineError, Extras, Finish, FinishReason, PromptOutput, RawJson, StopCause,
    TokenLogprob, WorkerId,
};

use crate::Difference;
use crate::fixture::{Fixture, list};

/// The deltas and the error that a recording must end in.
pub(crate) fn compare(
    fixture: &Fixture,
    deltas: &[Delta],
    error: Option<&EngineError>,
    worker: &str,
) -> Vec<Difference> {
    let mut prompt = None;
    let mut expected = Vec::new();
    for message in &fixture.messages {
        if let Some(info) = message.get("prompt_info") {
            prompt = Some(Box::new(prompt_of(info, fixture)));
        }
        if let Some(outputs) = message.get("outputs") {
            expected.push(Delta { prompt: prompt.take(), ..delta_of(outputs) });
        }
    }
    let mut differences = Vec::new();
    for (at, (found, expected)) in deltas.iter().zip(&expected).enumerate() {
        if !same(found, expected) {
            differences
                .push(Difference::new("deltas", format!("{at}: expected {expected:?}, found {found:?}")));
        }
    }
    if deltas.len() != expected.len() {
        let text = format!("expected {}, found {}", expected.len(), deltas.len());
        differences.push(Difference::new("number of deltas", text));
    }
    let expected = error_of(fixture, worker);
    if error != expected.as_ref() {
        let broken = matches!(error, Some(EngineError::Protocol(_)));
        let part = if broken { "contract" } else { "error" };
        differences.push(Difference::new(part, format!("expected {expected:?}, found {error:?}")));
    }
    differences
}

/// Equal, JSON by value and log-probs by their bits.
fn same(found: &Delta, expected: &Delta) -> bool {
    let bits = |delta: &Delta| -> Vec<u32> {
        let prompt = delta.prompt.iter().flat_map(|prompt| &prompt.logprobs);
        let rows = prompt.chain(&delta.logprobs);
        rows.flat_map(|row| std::iter::once(row.logprob).chain(row.candidates.iter().map(|c| c.logprob)))
            .map(f32::to_bits)
            .collect()
    };
    let without_json = |delta: &Delta| {
        let mut delta = delta.clone();
        if let Some(finish) = &mut delta.finish {
            (finish.extras.kv_transfer_params, finish.extras.ec_transfer_params) = (None, None);
        }
        delta
    };
    let json = |delta: &Delta| {
        let extras = delta.finish.as_ref().map(|finish| &finish.extras);
        let parse = |raw: Option<&RawJson>| raw.map(|raw| doubles(raw.as_str()));
        extras.map(|extras| {
            (parse(extras.kv_transfer_params.as_ref()), parse(extras.ec_transfer_params.as_ref()))
        })
    };
    without_json(found) == without_json(expected)
        && bits(found) == bits(expected)
        && json(found) == json(expected)
}

/// JSON in which 5600 and 5600.0 are equal and the order of keys is none.
fn doubles(text: &str) -> String {
    fn write(value: Value) -> Value {
        match value {
            Value::Number(number) => Value::from(number.as_f64()),
            Value::Array(items) => items.into_iter().map(write).collect(),
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.into_iter().map(|(key, value)| (key, write(value))).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Value::Object(fields.into_iter().collect())
            }
            Value::Null | Value::Bool(_) | Value::String(_) => value,
        }
    }
    write(serde_json::from_str(text).expect("the adapter writes JSON")).to_string()
}

fn number(value: &Value) -> u32 {
    value.as_u64().unwrap_or_default() as u32
}

fn numbers(value: &Value) -> Vec<u32> {
    list(value).iter().map(number).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn float(value: &Value) -> f32 {
    match value.as_str() {
        Some("-Infinity") => f32::NEG_INFINITY,
        Some(other) => panic!("a log-prob of {other}"),
        None => value.as_f64().unwrap_or_default() as f32,
    }
}

fn prompt_of(info: &Value, fixture: &Fixture) -> PromptOutput {
    let token_ids = numbers(&info["token_ids"]);
    let scored =
        if token_ids.is_empty() { numbers(&fixture.json["token_ids"]["ids"]) } else { token_ids.clone() };
    let logprobs = rows(info, &scored);
    PromptOutput { prompt_tokens: number(&info["num_prompt_tokens"]), token_ids, logprobs }
}

fn rows(parent: &Value, tokens: &[u32]) -> Vec<TokenLogprob> {
    let candidate = |value: &Value| Candidate {
        token: number(&value["id"]),
        logprob: float(&value["logprob"]),
        rank: number(&value["rank"]),
    };
    let logprobs = list(&parent["logprobs"]).iter().zip(tokens).enumerate();
    logprobs
        .map(|(at, (logprob, &token))| TokenLogprob {
            token,
            logprob: float(logprob),
            rank: number(&parent["ranks"][at]),
            candidates: list(&parent["candidate_tokens"][at]["tokens"]).iter().map(candidate).collect(),
        })
        .collect()
}

fn delta_of(outputs: &Value) -> Delta {
    let token_ids = numbers(&outputs["token_ids"]);
    let mask: Vec<Vec<u32>> =
        list(&outputs["sampling_mask"]).iter().map(|row| numbers(&row["ids"])).collect();
    Delta {
        index: number(&outputs["index"]),
        prompt: None,
        text: text(&outputs["text"]),
        logprobs: rows(outputs, &token_ids),
        token_ids,
        finish: outputs.get("finish_info").map(|info| Box::new(finish_of(info, mask))),
    }
}

fn finish_of(info: &Value, mask: Vec<Vec<u32>>) -> Finish {
    let reason = match info["finish_reason"].as_str() {
        Some("STOP") => FinishReason::Stop,
        Some("LENGTH") => FinishReason::Length,
        Some("ABORTED") => FinishReason::Abort,
        other => panic!("finish_reason {other:?}"),
    };
    let id = |name: &str| info.get(name).map(number);
    let stop = id("eos_token_id")
        .map(StopCause::Eos)
        .or(id("stop_token_id").map(StopCause::Token))
        .or(info.get("stop_string").map(|string| StopCause::Text(text(string))));
    let json = |name: &str| info.get(name).map(|value| RawJson::new(value.to_string()));
    Finish {
        reason,
        stop,
        output_tokens: number(&info["num_output_tokens"]),
        cached_tokens: id("num_cached_tokens"),
        extras: Extras {
            kv_transfer_params: json("kv_transfer_params"),
            ec_transfer_params: json("ec_transfer_params"),
            sampling_mask: (!mask.is_empty()).then_some(mask),
            routed_experts: None,
            weight_versions: Vec::new(),
        },
    }
}

/// The reading of a status: what the client caused keeps the engine's words, the rest names the worker.
fn error_of(fixture: &Fixture, worker: &str) -> Option<EngineError> {
    let (code, message) = fixture.status.clone();
    let worker = WorkerId::new(worker);
    Some(match code {
        0 => return None,
        1 if message == "Timeout expired" => EngineError::Deadline(worker),
        1 => EngineError::Engine(worker, format!("Cancelled: {message}")),
        3 | 9 => EngineError::Refused(message),
        4 => EngineError::Deadline(worker),
        5 => EngineError::NotFound(message),
        11 => EngineError::TooLarge(message),
        12 => EngineError::Unsupported(message),
        13 => EngineError::Engine(worker, format!("Internal: {message}")),
        14 if fixture.messages.is_empty() => EngineError::Connect(worker, format!("Unavailable: {message}")),
        14 => EngineError::Lost(worker, format!("Unavailable: {message}")),
        other => panic!("a recorded status {other} has no expected reading"),
    })
}
