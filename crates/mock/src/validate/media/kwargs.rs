//! The tensors of one item: a map of named fields, each with data and the way it is batched.

use super::msgpack::{self, Value};

/// Bytes per element of the tensors that vLLM 0.32 takes, by torch's short names.
const DTYPES: [(&str, u64); 11] = [
    ("float16", 2),
    ("bfloat16", 2),
    ("float32", 4),
    ("float64", 8),
    ("uint8", 1),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("bool", 1),
];
/// The extension type of tensor bytes.
const TENSOR: i8 = 3;

/// What is wrong with the tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("kwargs are not one MessagePack value")]
    Encoding,
    #[error("kwargs are not a map of named fields")]
    Fields,
    #[error("a field of kwargs has no data, or none that is known")]
    Data,
    #[error("a tensor of kwargs has not as many bytes as its shape says")]
    TensorBytes,
    #[error("a field of kwargs is not batched in a known way")]
    Batching,
}

/// Rank of a field's data: that of a tensor, or none for a list or a number.
type Rank = Option<usize>;

pub(super) fn check(bytes: &[u8]) -> Result<(), Error> {
    let value = msgpack::read(bytes).ok_or(Error::Encoding)?;
    let Value::Map(fields) = value else { return Err(Error::Fields) };
    if fields.is_empty() {
        return Err(Error::Fields);
    }
    for (name, field) in &fields {
        let (Value::Text(name), Value::Map(field)) = (name, field) else { return Err(Error::Fields) };
        if name.is_empty() {
            return Err(Error::Fields);
        }
        let rank = check_data(get(field, "data").ok_or(Error::Data)?)?;
        check_batching(get(field, "field").ok_or(Error::Batching)?, rank)?;
    }
    Ok(())
}

fn get<'a, 'b>(map: &'b [(Value<'a>, Value<'a>)], key: &str) -> Option<&'b Value<'a>> {
    map.iter().find(|(name, _)| matches!(name, Value::Text(name) if *name == key)).map(|(_, value)| value)
}

fn check_data(value: &Value<'_>) -> Result<Rank, Error> {
    match value {
        Value::Integer(_) | Value::Float => Ok(None),
        Value::Array(items) => match items.as_slice() {
            [Value::Text(dtype), Value::Array(dims), Value::Extension(TENSOR, bytes)] => {
                check_tensor(dtype, dims, bytes.len() as u64).map(Some)
            }
            items => {
                for item in items {
                    check_data(item)?;
                }
                Ok(None)
            }
        },
        Value::Nil
        | Value::Bool(_)
        | Value::Text(_)
        | Value::Binary
        | Value::Map(_)
        | Value::Extension(..) => Err(Error::Data),
    }
}

fn check_tensor(dtype: &str, dims: &[Value<'_>], bytes: u64) -> Result<usize, Error> {
    let (_, size) = DTYPES.iter().find(|(name, _)| *name == dtype).ok_or(Error::Data)?;
    let mut expected = Some(*size);
    for dim in dims {
        let Value::Integer(dim) = dim else { return Err(Error::Data) };
        let dim = u64::try_from(*dim).map_err(|_| Error::Data)?;
        expected = expected.and_then(|expected| expected.checked_mul(dim));
    }
    if expected == Some(bytes) { Ok(dims.len()) } else { Err(Error::TensorBytes) }
}

fn check_batching(value: &Value<'_>, rank: Rank) -> Result<(), Error> {
    let Value::Array(parts) = value else { return Err(Error::Batching) };
    let [Value::Text(kind), Value::Map(attributes)] = parts.as_slice() else { return Err(Error::Batching) };
    let on_cpu = matches!(get(attributes, "keep_on_cpu"), Some(Value::Bool(_)));
    let fits = match *kind {
        "batched" => true,
        "shared" => matches!(get(attributes, "batch_size"), Some(Value::Integer(_))),
        "flat" => {
            let slices = match get(attributes, "slices") {
                Some(Value::Array(slices)) => slices.iter().all(is_slice),
                _ => false,
            };
            // A list has one dimension.
            let rank = rank.unwrap_or(1) as i64;
            let dim = match get(attributes, "dim") {
                Some(Value::Integer(dim)) => (0..rank).contains(dim),
                _ => false,
            };
            slices && dim
        }
        _ => false,
    };
    if on_cpu && fits { Ok(()) } else { Err(Error::Batching) }
}

/// Start, stop and step, the last of which may be nil.
fn is_slice(value: &Value<'_>) -> bool {
    let Value::Array(parts) = value else { return false };
    let [Value::Integer(_), Value::Integer(_), step] = parts.as_slice() else { return false };
    matches!(step, Value::Integer(_) | Value::Nil)
}
