//! A small instance of a JSON schema: the keywords that clients use, the simplest value of each.

use serde_json::{Map, Value};

/// Schemas nested deeper than this are met with null.
const DEPTH_MAX: u32 = 16;
/// Longest text of an instance, and of any part of it (bytes). Arrays within arrays multiply what a schema asks for.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 20;

/// An instance as compact JSON text; none if it were longer than [`TEXT_BYTES_MAX`].
pub(super) fn of_schema(schema: &Value) -> Option<String> {
    instance(schema, 0)
}

fn instance(schema: &Value, depth: u32) -> Option<String> {
    let Value::Object(schema) = schema else { return Some("{}".to_owned()) };
    if depth >= DEPTH_MAX {
        return Some("null".to_owned());
    }
    if let Some(value) = schema.get("const") {
        return bounded(value.to_string());
    }
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
        return bounded(first.to_string());
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(keyword).and_then(Value::as_array).and_then(|list| list.first()) {
            return instance(first, depth + 1);
        }
    }
    match kind(schema) {
        "array" => array(schema, depth),
        "string" => bounded(string(schema).to_string()),
        "integer" | "number" => bounded(number(schema).to_string()),
        "boolean" => Some("true".to_owned()),
        "null" => Some("null".to_owned()),
        _ => object(schema, depth),
    }
}

fn kind(schema: &Map<String, Value>) -> &str {
    let named = match schema.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => names.first().and_then(Value::as_str),
        _ => None,
    };
    named.unwrap_or(if schema.contains_key("items") { "array" } else { "object" })
}

fn object(schema: &Map<String, Value>, depth: u32) -> Option<String> {
    let nothing = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&nothing);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect());
    let mut members = String::new();
    for (name, schema) in properties.iter().filter(|(name, _)| required.contains(&name.as_str())) {
        let comma = if members.is_empty() { "" } else { "," };
        let member = format!("{comma}{}:{}", Value::from(name.as_str()), instance(schema, depth + 1)?);
        if members.len() + member.len() > TEXT_BYTES_MAX {
            return None;
        }
        members.push_str(&member);
    }
    bounded(format!("{{{members}}}"))
}

fn array(schema: &Map<String, Value>, depth: u32) -> Option<String> {
    const ITEMS_MAX: u64 = 64;
    let count = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(ITEMS_MAX) as usize;
    if count == 0 {
        return Some("[]".to_owned());
    }
    let item =
        schema.get("items").map_or_else(|| Some("null".to_owned()), |items| instance(items, depth + 1))?;
    // Items are counted before they are written.
    if item.len() * count > TEXT_BYTES_MAX {
        return None;
    }
    bounded(format!("[{}]", vec![item; count].join(",")))
}

fn bounded(text: String) -> Option<String> {
    (text.len() <= TEXT_BYTES_MAX).then_some(text)
}

fn string(schema: &Map<String, Value>) -> Value {
    const LENGTH_MAX: u64 = 256;
    let length = schema.get("minLength").and_then(Value::as_u64).unwrap_or(1).min(LENGTH_MAX);
    let pattern = schema.get("pattern").and_then(Value::as_str).and_then(super::pattern::of_regex);
    Value::String(pattern.unwrap_or_else(|| "a".repeat(length as usize)))
}

fn number(schema: &Map<String, Value>) -> Value {
    let least = schema.get("minimum").or_else(|| schema.get("maximum"));
    least.cloned().unwrap_or_else(|| Value::from(1))
}
