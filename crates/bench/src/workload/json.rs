//! The parts of a body that do not change from request to request.

use serde_json::{Map, Value, json};

use crate::config::{Api, Target, WorkloadConfig};
use crate::decimal::push_decimal;

/// Stands for the token budget while the body is written; no budget is as large.
const BUDGET: u64 = u64::MAX;
/// Digits of the largest token budget.
const BUDGET_BYTES_MAX: usize = 10;

/// A body with room for two things: the list of ids, and the token budget.
#[derive(Debug)]
pub(super) struct Frame {
    /// Up to the first id.
    before_ids: Vec<u8>,
    /// Between the last id and the token budget.
    before_budget: Vec<u8>,
    /// After the token budget.
    end: Vec<u8>,
}

impl Frame {
    pub(super) fn new(target: &Target, workload: &WorkloadConfig) -> Self {
        let ids_field = match target.api {
            Api::Generate => "token_ids",
            Api::Completions => "prompt",
        };
        let rest = Value::Object(fields(target, workload)).to_string();
        let rest = rest.strip_prefix('{').expect("an object is written with a brace");
        // The first one is ours: only the model's name comes before it, in which quotes are escaped.
        let budget = format!("\"max_tokens\":{BUDGET}");
        let at = rest.find(&budget).expect("the budget is always said") + "\"max_tokens\":".len();
        let (before, end) = (&rest[..at], &rest[at + BUDGET.to_string().len()..]);
        Self {
            before_ids: format!("{{\"{ids_field}\":[").into_bytes(),
            before_budget: format!("],{before}").into_bytes(),
            end: end.as_bytes().to_vec(),
        }
    }

    /// The beginning of a body, with room for the rest and `ids_bytes` of ids.
    pub(super) fn begin(&self, ids_bytes: usize) -> Vec<u8> {
        let Self { before_ids, before_budget, end } = self;
        let bytes = before_ids.len() + ids_bytes + before_budget.len() + BUDGET_BYTES_MAX + end.len();
        let mut json = Vec::with_capacity(bytes);
        json.extend_from_slice(before_ids);
        json
    }

    /// Completes a body whose ids are written.
    pub(super) fn end(&self, json: &mut Vec<u8>, budget_tokens: u32) {
        json.extend_from_slice(&self.before_budget);
        push_decimal(json, budget_tokens);
        json.extend_from_slice(&self.end);
    }
}

/// Everything but the ids.
fn fields(target: &Target, workload: &WorkloadConfig) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(model) = &target.model {
        fields.insert("model".to_owned(), json!(model));
    }
    let mut sampling = Map::new();
    sampling.insert("max_tokens".to_owned(), json!(BUDGET));
    if workload.ignore_eos {
        sampling.insert("ignore_eos".to_owned(), json!(true));
    }
    match target.api {
        Api::Generate => {
            fields.insert("sampling_params".to_owned(), Value::Object(sampling));
        }
        Api::Completions => {
            fields.extend(sampling);
            if workload.session.is_some() {
                // The next turn is made of them. The other route sends them always.
                fields.insert("return_token_ids".to_owned(), json!(true));
            }
        }
    }
    if workload.stream {
        fields.insert("stream".to_owned(), json!(true));
        fields.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    merge(&mut fields, &target.extra_body);
    fields
}
/// Adds `extra` to `fields`, objects key by key. As deep as the extra body is, which its parser bounded.
fn merge(fields: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (key, value) in extra {
        match (fields.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => merge(inner, value),
            _ => {
                fields.insert(key.clone(), value.clone());
            }
        }
    }
}
