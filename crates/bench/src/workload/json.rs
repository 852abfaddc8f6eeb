//! The parts of a body that do not change from request to request.

use serde_json::{Map, Value, json};

use crate::config::{Api, Target, WorkloadConfig};

/// The JSON before and after the list of ids.
pub(super) fn around_ids(target: &Target, workload: &WorkloadConfig) -> (Vec<u8>, Vec<u8>) {
    let ids_field = match target.api {
        Api::Generate => "token_ids",
        Api::Completions => "prompt",
    };
    let rest = Value::Object(fields(target, workload)).to_string();
    let rest = rest.strip_prefix('{').expect("an object is written with a brace");
    (format!("{{\"{ids_field}\":[").into_bytes(), format!("],{rest}").into_bytes())
}

/// Everything but the ids. Never empty: the token budget is always said.
fn fields(target: &Target, workload: &WorkloadConfig) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(model) = &target.model {
        fields.insert("model".to_owned(), json!(model));
    }
    let mut sampling = Map::new();
    sampling.insert("max_tokens".to_owned(), json!(workload.output_tokens));
    if workload.ignore_eos {
        sampling.insert("ignore_eos".to_owned(), json!(true));
    }
    match target.api {
        Api::Generate => {
            fields.insert("sampling_params".to_owned(), Value::Object(sampling));
        }
        Api::Completions => fields.extend(sampling),
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
