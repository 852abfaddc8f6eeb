//! JSON as MessagePack, so that tests can write batches; `{"$bin": [bytes]}` stands for a byte string.

use serde_json::Value;

/// The bytes of a value.
pub(crate) fn pack(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(value, &mut bytes);
    bytes
}

fn write(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Null => to.push(0xc0),
        Value::Bool(flag) => to.push(0xc2 + u8::from(*flag)),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(small), _) if small < 128 => to.push(small as u8),
            (Some(medium), _) if medium < 1 << 16 => headed(0xcd, &(medium as u16).to_be_bytes(), to),
            (Some(large), _) => headed(0xcf, &large.to_be_bytes(), to),
            (None, Some(negative)) => headed(0xd3, &negative.to_be_bytes(), to),
            (None, None) => headed(0xcb, &number.as_f64().expect("a number").to_be_bytes(), to),
        },
        Value::String(text) => {
            headed(0xd9, &[u8::try_from(text.len()).expect("short")], to);
            to.extend(text.as_bytes());
        }
        Value::Array(items) => {
            headed(0xdc, &u16::try_from(items.len()).expect("short").to_be_bytes(), to);
            for item in items {
                write(item, to);
            }
        }
        Value::Object(fields) => {
            if let Some(bytes) = fields.get("$bin") {
                let bytes = bytes.as_array().expect("bytes").iter();
                let bytes: Vec<u8> = bytes.map(|byte| byte.as_u64().expect("a byte") as u8).collect();
                headed(0xc4, &[u8::try_from(bytes.len()).expect("short")], to);
                to.extend(bytes);
                return;
            }
            headed(0xde, &u16::try_from(fields.len()).expect("short").to_be_bytes(), to);
            for (name, field) in fields {
                write(&Value::String(name.clone()), to);
                write(field, to);
            }
        }
    }
}

fn headed(marker: u8, rest: &[u8], to: &mut Vec<u8>) {
    to.push(marker);
    to.extend(rest);
}
