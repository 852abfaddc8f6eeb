//! A small instance of a JSON schema: the keywords that clients use, the simplest value of each.

use serde_json::{Map, Value};

/// Schemas nested deeper than this are met with null.
const DEPTH_MAX: u32 = 16;

/// An instance as compact JSON text.
pub(super) fn of_schema(schema: &Value) -> String {
    instance(schema, 0).to_string()
}

fn instance(schema: &Value, depth: u32) -> Value {
    let Value::Object(schema) = schema else { return Value::Object(Map::new()) };
    if depth >= DEPTH_MAX {
        return Value::Null;
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
        return first.clone();
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(keyword).and_then(Value::as_array).and_then(|list| list.first()) {
            return instance(first, depth + 1);
        }
    }
    match kind(schema) {
        "array" => array(schema, depth),
        "string" => string(schema),
        "integer" | "number" => number(schema),
        "boolean" => Value::Bool(true),
        "null" => Value::Null,
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

fn object(schema: &Map<String, Value>, depth: u32) -> Value {
    let nothing = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&nothing);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect());
    let filled = properties.iter().filter(|(name, _)| required.contains(&name.as_str()));
    Value::Object(filled.map(|(name, schema)| (name.clone(), instance(schema, depth + 1))).collect())
}

fn array(schema: &Map<String, Value>, depth: u32) -> Value {
    const ITEMS_MAX: u64 = 64;
    let count = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(ITEMS_MAX);
    let item = schema.get("items").map_or(Value::Null, |items| instance(items, depth + 1));
    Value::Array((0..count).map(|_| item.clone()).collect())
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
