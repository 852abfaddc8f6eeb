//! Checks the hand-off between prefill and decode engines before it can hurt one.
//!
//! The objects travel as text, in the client's order, and become a protobuf Struct whose numbers are doubles.

use serde_json::Value;
use tito_types::RawJson;

use crate::Refusal;
use crate::json;
use crate::object::Member;

/// Deepest nesting. A Struct spends three protobuf levels on each and decoders stop at 100: what nests 33 deep would
/// be refused by the engine. Half of that leaves room for the message around it, and is far more than the lists of
/// block ids that engines hand over.
const DEPTH_MAX: usize = 16;
/// Largest whole number that a double holds exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

/// What a NIXL pull needs; vLLM 0.32's decode engine dies or waits for ever without.
const PULL: [&str; 5] =
    ["remote_block_ids", "remote_engine_id", "remote_request_id", "remote_host", "remote_port"];

/// An object that a Struct can hold.
pub(crate) fn opaque(member: Member<'_, '_>) -> Result<RawJson, Refusal> {
    parse(member)?;
    Ok(RawJson::new(member.raw().to_owned()))
}

/// `kv_transfer_params`: an object that a Struct can hold and that no decode engine dies of.
pub(crate) fn kv(member: Member<'_, '_>) -> Result<RawJson, Refusal> {
    let params = parse(member)?;
    let given = |name: &str| params.get(name).is_some_and(|value| !value.is_null());
    let pushed = params.get("transfer_mode").and_then(Value::as_str) == Some("push");
    let mooncake = given("transfer_id") && given("remote_bootstrap_addr");
    let pulled = params.get("do_remote_prefill").is_some_and(truthy) && !pushed && !mooncake;
    let missing = |name: &&str| !params.get(*name).is_some_and(|value| usable(name, value));
    if let Some(name) = PULL.iter().find(|name| pulled && missing(name)) {
        let path = format!("{}.{name}", member.path());
        return Err(Refusal::invalid(
            path,
            "is missing, empty or malformed: an engine cannot pull the prefix without it",
        ));
    }
    Ok(RawJson::new(member.raw().to_owned()))
}

fn parse(member: Member<'_, '_>) -> Result<Value, Refusal> {
    let members = member.members()?;
    for (at, (name, _)) in members.iter().enumerate() {
        if members[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(member.refuse("must not name a key twice"));
        }
    }
    if json::depth(member.raw()) > DEPTH_MAX {
        return Err(member.refuse(format!("must nest at most {DEPTH_MAX} levels deep")));
    }
    let value: Value = serde_json::from_str(member.raw())
        .map_err(|error| member.refuse(format!("cannot be read: {error}")))?;
    check_numbers(&value, &mut member.path())?;
    Ok(value)
}

/// Refuses whole numbers that a double would change. `path` is where `value` is.
fn check_numbers(value: &Value, path: &mut String) -> Result<(), Refusal> {
    use std::fmt::Write as _;

    let length = path.len();
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => {}
        Value::Number(number) => {
            let double = number.as_f64().unwrap_or(f64::INFINITY);
            if double.fract() == 0.0 && double.abs() > WHOLE_MAX {
                return Err(Refusal::invalid(
                    path.as_str(),
                    "must be at most 9007199254740991 (2^53 - 1): larger whole numbers would change",
                ));
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                write!(path, "[{at}]").expect("a string takes any text");
                check_numbers(item, path)?;
                path.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, item) in members {
                write!(path, ".{name}").expect("a string takes any text");
                check_numbers(item, path)?;
                path.truncate(length);
            }
        }
    }
    Ok(())
}

/// What Python takes for true.
fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// Whether a member of a NIXL pull can be used.
fn usable(name: &str, value: &Value) -> bool {
    let filled = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let whole = |value: &Value, max: f64| {
        value.as_f64().is_some_and(|double| double.fract() == 0.0 && (0.0..=max).contains(&double))
    };
    match name {
        "remote_block_ids" => {
            let groups: Option<Vec<&Vec<Value>>> =
                value.as_array().and_then(|groups| groups.iter().map(Value::as_array).collect());
            groups.is_some_and(|groups| {
                let mut ids = groups.into_iter().flatten().peekable();
                ids.peek().is_some() && ids.all(|id| whole(id, WHOLE_MAX))
            })
        }
        "remote_port" => filled(value) || whole(value, 65_535.0) && value.as_f64() != Some(0.0),
        _ => filled(value),
    }
}

#[cfg(test)]
mod tests;
