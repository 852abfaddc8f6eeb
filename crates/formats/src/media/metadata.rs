//! Renderers send some fields of a payload a second time, as `mm_metadata`. Engines have no place for them, and none
//! is needed as long as they say nothing new: that is all that is looked for in a payload.

/// Whether every field of `metadata` is a field of `payload`, byte for byte. Both are MessagePack maps.
pub(super) fn repeats(metadata: &[u8], payload: &[u8]) -> bool {
    let (Some(metadata), Some(payload)) = (fields(metadata), fields(payload)) else { return false };
    metadata.iter().all(|field| payload.contains(field))
}

/// Most fields of one item; models have a handful.
const FIELDS_MAX: usize = 64;

/// Name and value of each field, still encoded; `None` for anything but one whole map.
fn fields(map: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = map;
    let Head { values, .. } = head(&mut rest).filter(|head| head.map)?;
    let count = usize::try_from(values / 2).ok().filter(|count| *count <= FIELDS_MAX)?;
    let mut fields = Vec::with_capacity(count);
    for _ in 0..count {
        let field = rest;
        skip(&mut rest, 2)?;
        fields.push(&field[..field.len() - rest.len()]);
    }
    rest.is_empty().then_some(fields)
}

/// Steps over whole values. Each takes a byte at least, so this ends whatever the bytes claim.
fn skip(rest: &mut &[u8], values: u64) -> Option<()> {
    let mut pending = values;
    while pending > 0 {
        pending = (pending - 1).saturating_add(head(rest)?.values);
    }
    Some(())
}

/// What follows the first bytes of a value.
struct Head {
    map: bool,
    /// Values inside: keys and values of a map.
    values: u64,
}

/// Steps over a value up to the values inside it.
fn head(rest: &mut &[u8]) -> Option<Head> {
    let flat = Some(Head { map: false, values: 0 });
    let list = |values| Some(Head { map: false, values });
    let map = |entries: u64| Some(Head { map: true, values: entries.saturating_mul(2) });
    match number(rest, 1)? {
        byte @ 0x80..=0x8f => map(byte & 0x0f),
        byte @ 0x90..=0x9f => list(byte & 0x0f),
        byte @ 0xa0..=0xbf => bytes(rest, byte & 0x1f).and(flat),
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => flat,
        // Strings and binary data, then extensions with their type, each after a length.
        0xc4 | 0xd9 => number(rest, 1).and_then(|length| bytes(rest, length)).and(flat),
        0xc5 | 0xda => number(rest, 2).and_then(|length| bytes(rest, length)).and(flat),
        0xc6 | 0xdb => number(rest, 4).and_then(|length| bytes(rest, length)).and(flat),
        0xc7 => number(rest, 1).and_then(|length| bytes(rest, length + 1)).and(flat),
        0xc8 => number(rest, 2).and_then(|length| bytes(rest, length + 1)).and(flat),
        0xc9 => number(rest, 4).and_then(|length| bytes(rest, length + 1)).and(flat),
        // Numbers, then extensions of fixed length.
        0xcc | 0xd0 => bytes(rest, 1).and(flat),
        0xcd | 0xd1 | 0xd4 => bytes(rest, 2).and(flat),
        0xd5 => bytes(rest, 3).and(flat),
        0xca | 0xce | 0xd2 => bytes(rest, 4).and(flat),
        0xd6 => bytes(rest, 5).and(flat),
        0xcb | 0xcf | 0xd3 => bytes(rest, 8).and(flat),
        0xd7 => bytes(rest, 9).and(flat),
        0xd8 => bytes(rest, 17).and(flat),
        0xdc => number(rest, 2).and_then(list),
        0xdd => number(rest, 4).and_then(list),
        0xde => number(rest, 2).and_then(map),
        0xdf => number(rest, 4).and_then(map),
        _ => None,
    }
}

/// An unsigned number of so many bytes, at most 8, most significant first.
fn number(rest: &mut &[u8], length: u64) -> Option<u64> {
    Some(bytes(rest, length)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn bytes<'b>(rest: &mut &'b [u8], length: u64) -> Option<&'b [u8]> {
    let (bytes, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests;
