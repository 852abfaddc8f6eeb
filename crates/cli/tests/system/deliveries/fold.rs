//! A stream's chunks as the one body that they add up to, and how two bodies differ.

use serde_json::{Map, Value, json};

/// Members that come in parts, one after the other.
const GROWING: [&str; 6] =
    ["token_ids", "content", "tokens", "token_logprobs", "top_logprobs", "text_offset"];
/// When a reply was made; two are not made at once.
const TIMES: [&str; 1] = ["created"];

/// What the chunks of a stream say together, or the one body; members without a value are left out.
pub(super) fn folded(chunks: &[Value]) -> Value {
    let mut whole = json!({});
    for chunk in chunks {
        merge(&mut whole, chunk.clone(), "");
    }
    if let Some(choices) = whole["choices"].as_array_mut() {
        choices.sort_by_key(|choice| choice["index"].as_u64());
    }
    whole
}

fn merge(into: &mut Value, from: Value, name: &str) {
    match (&mut *into, from) {
        (_, Value::Null) => {}
        (Value::Object(members), Value::Object(more)) => {
            for (name, value) in more {
                if !TIMES.contains(&name.as_str()) {
                    add(members, name, value);
                }
            }
        }
        (Value::Array(items), Value::Array(more)) if name == "choices" => {
            for choice in more {
                let same = items.iter_mut().find(|item| item["index"] == choice["index"]);
                match same {
                    Some(item) => merge(item, choice, ""),
                    None => items.push(without_nulls(choice)),
                }
            }
        }
        (Value::Array(items), Value::Array(more)) if GROWING.contains(&name) => {
            items.extend(more.into_iter().map(without_nulls));
        }
        (Value::String(text), Value::String(more)) if name == "text" => text.push_str(&more),
        (place, value) => {
            let value = without_nulls(value);
            assert!(*place == value, "{name} was {place} and became {value} in a later chunk");
        }
    }
}

fn add(members: &mut Map<String, Value>, name: String, value: Value) {
    if value.is_null() {
        return;
    }
    match members.get_mut(&name) {
        Some(known) => merge(known, value, &name),
        None => drop(members.insert(name, without_nulls(value))),
    }
}

/// The same without members that are null; entries of lists keep their places.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut kept = Map::new();
            for (name, value) in members {
                if !value.is_null() && !TIMES.contains(&name.as_str()) {
                    kept.insert(name, without_nulls(value));
                }
            }
            Value::Object(kept)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Where one differs from the other, by path.
pub(super) fn differences(path: &str, streamed: &Value, whole: &Value) -> Vec<String> {
    match (streamed, whole) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let mut names: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
            names.sort_unstable();
            names.dedup();
            let of = |name: &String| {
                let (ours, theirs) = (ours.get(name), theirs.get(name));
                differences(
                    &format!("{path}.{name}"),
                    ours.unwrap_or(&Value::Null),
                    theirs.unwrap_or(&Value::Null),
                )
            };
            names.into_iter().flat_map(of).collect()
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs
                .flat_map(|(at, (ours, theirs))| differences(&format!("{path}[{at}]"), ours, theirs))
                .collect()
        }
        _ if streamed == whole => Vec::new(),
        _ => vec![format!("{path} is {streamed}, whole {whole}")],
    }
}

#[test]
fn chunks_add_up_to_the_body_they_are_parts_of() {
    let chunks = [
        json!({ "id": "r", "created": 1, "choices": [{ "index": 1, "text": "a", "token_ids": [1], "finish_reason": null }] }),
        json!({ "id": "r", "created": 2, "choices": [{ "index": 0, "text": "x", "token_ids": [7] }] }),
        json!({ "id": "r", "choices": [{ "index": 1, "text": "b", "token_ids": [2], "finish_reason": "stop" }] }),
        json!({ "id": "r", "choices": [], "usage": { "prompt_tokens": 3, "completion_tokens": null } }),
    ];
    let whole = json!({
        "id": "r",
        "choices": [
            { "index": 0, "text": "x", "token_ids": [7] },
            { "index": 1, "text": "ab", "token_ids": [1, 2], "finish_reason": "stop" },
        ],
        "usage": { "prompt_tokens": 3 },
    });
    assert_eq!(folded(&chunks), whole);
    let mut other = whole.clone();
    other["choices"][1]["token_ids"] = json!([1, 3]);
    other["usage"]["more"] = json!(1);
    let found = differences("body", &whole, &other);
    let expected = ["body.choices[1].token_ids[1] is 2, whole 3", "body.usage.more is null, whole 1"];
    assert_eq!(found, expected);
}
