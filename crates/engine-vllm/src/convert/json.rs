//! JSON objects ↔ `google.protobuf.Struct`. Equal as values: a Struct has no key order and only doubles.

use prost_types::{ListValue, Struct, Value, value::Kind};
use serde_json::{Map, Number, Value as Json};
use tito_types::{EngineError, RawJson};

/// Beyond this a double no longer holds every integer (2⁵³ − 1).
const INTEGER_MAX: i64 = (1 << 53) - 1;
/// A Struct costs three messages per level, and protobuf decoders stop at 100.
const DEPTH_MAX: usize = 32;

/// A JSON object as a Struct, or a refusal that names the field.
pub(crate) fn struct_of(json: &str, param: &str) -> Result<Struct, EngineError> {
    let refuse = |message: &str| EngineError::Invalid { param: param.into(), message: message.into() };
    let parsed = serde_json::from_str(json).map_err(|_| refuse("must be a JSON object"))?;
    match parsed {
        Json::Object(fields) => fields_to_struct(fields, DEPTH_MAX).map_err(refuse),
        _ => Err(refuse("must be a JSON object")),
    }
}

fn fields_to_struct(fields: Map<String, Json>, depth: usize) -> Result<Struct, &'static str> {
    let fields = fields.into_iter().map(|(key, value)| Ok((key, value_of(value, depth)?)));
    Ok(Struct { fields: fields.collect::<Result<_, &'static str>>()? })
}

fn value_of(json: Json, depth: usize) -> Result<Value, &'static str> {
    let depth = depth.checked_sub(1).ok_or("must not nest deeper than 32 levels")?;
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(value),
        Json::Number(number) => Kind::NumberValue(double_of(&number)?),
        Json::String(text) => Kind::StringValue(text),
        Json::Array(items) => {
            let values = items.into_iter().map(|item| value_of(item, depth));
            Kind::ListValue(ListValue { values: values.collect::<Result<_, _>>()? })
        }
        Json::Object(fields) => Kind::StructValue(fields_to_struct(fields, depth)?),
    };
    Ok(Value { kind: Some(kind) })
}

fn double_of(number: &Number) -> Result<f64, &'static str> {
    let exact = match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) => integer.abs_diff(0) <= INTEGER_MAX as u64,
        (None, Some(_)) => false,
        (None, None) => true,
    };
    match number.as_f64() {
        Some(double) if exact => Ok(double),
        _ => Err("must not hold integers beyond 2^53 - 1: the engine's wire has only doubles"),
    }
}

/// A Struct as a JSON object; whole doubles become the integers they were.
pub(crate) fn json_of(fields: Struct) -> Result<RawJson, EngineError> {
    let json = object_of(fields)
        .ok_or_else(|| EngineError::Protocol("a Struct holds a number that JSON cannot write".into()))?;
    Ok(RawJson::new(json.to_string()))
}

fn object_of(fields: Struct) -> Option<Json> {
    let fields = fields.fields.into_iter().map(|(key, value)| Some((key, json_value_of(value)?)));
    Some(Json::Object(fields.collect::<Option<_>>()?))
}

fn json_value_of(value: Value) -> Option<Json> {
    Some(match value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(value)) => Json::Bool(value),
        Some(Kind::NumberValue(double)) => Json::Number(number_of(double)?),
        Some(Kind::StringValue(text)) => Json::String(text),
        Some(Kind::ListValue(list)) => {
            Json::Array(list.values.into_iter().map(json_value_of).collect::<Option<_>>()?)
        }
        Some(Kind::StructValue(fields)) => object_of(fields)?,
    })
}

fn number_of(double: f64) -> Option<Number> {
    let whole = double.fract() == 0.0 && double.abs() <= INTEGER_MAX as f64;
    if whole { Some(Number::from(double as i64)) } else { Number::from_f64(double) }
}

#[cfg(test)]
mod tests;
