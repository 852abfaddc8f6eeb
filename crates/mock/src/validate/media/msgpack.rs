//! MessagePack as it arrives: one value, borrowed from the bytes, of bounded depth.

/// Deepest nesting.
const DEPTH_MAX: u32 = 32;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    Integer(i64),
    Float,
    Text(&'a str),
    Binary,
    Array(Vec<Value<'a>>),
    Map(Vec<(Value<'a>, Value<'a>)>),
    Extension(i8, &'a [u8]),
}

/// Reads one value that takes all of the bytes. `None` is anything else.
pub(super) fn read(bytes: &[u8]) -> Option<Value<'_>> {
    let mut reader = Reader { rest: bytes };
    let value = reader.value(DEPTH_MAX)?;
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// A big-endian number of `bytes` bytes.
    fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn length(&mut self, bytes: usize) -> Option<usize> {
        usize::try_from(self.number(bytes)?).ok()
    }

    fn value(&mut self, depth: u32) -> Option<Value<'a>> {
        let marker = self.take(1)?[0];
        let value = match marker {
            0x00..=0x7f => Value::Integer(i64::from(marker)),
            0x80..=0x8f => self.map(usize::from(marker & 0x0f), depth)?,
            0x90..=0x9f => self.array(usize::from(marker & 0x0f), depth)?,
            0xa0..=0xbf => self.text(usize::from(marker & 0x1f))?,
            0xc0 => Value::Nil,
            0xc2 | 0xc3 => Value::Bool(marker == 0xc3),
            0xc4..=0xc6 => {
                let length = self.length(1 << (marker - 0xc4))?;
                self.take(length)?;
                Value::Binary
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (marker - 0xc7))?;
                self.extension(length)?
            }
            0xca | 0xcb => {
                self.take(if marker == 0xca { 4 } else { 8 })?;
                Value::Float
            }
            0xcc..=0xcf => Value::Integer(i64::try_from(self.number(1 << (marker - 0xcc))?).ok()?),
            0xd0..=0xd3 => {
                let bytes = 1 << (marker - 0xd0);
                let unused = 64 - 8 * bytes as u32;
                Value::Integer((self.number(bytes)? as i64) << unused >> unused)
            }
            0xd4..=0xd8 => self.extension(1 << (marker - 0xd4))?,
            0xd9..=0xdb => {
                let length = self.length(1 << (marker - 0xd9))?;
                self.text(length)?
            }
            0xdc | 0xdd => {
                let length = self.length(if marker == 0xdc { 2 } else { 4 })?;
                self.array(length, depth)?
            }
            0xde | 0xdf => {
                let length = self.length(if marker == 0xde { 2 } else { 4 })?;
                self.map(length, depth)?
            }
            0xe0..=0xff => Value::Integer(i64::from(marker as i8)),
            0xc1 => return None,
        };
        Some(value)
    }

    fn text(&mut self, length: usize) -> Option<Value<'a>> {
        std::str::from_utf8(self.take(length)?).ok().map(Value::Text)
    }

    fn extension(&mut self, length: usize) -> Option<Value<'a>> {
        let kind = self.take(1)?[0] as i8;
        Some(Value::Extension(kind, self.take(length)?))
    }

    /// Grows as items are read, so that a length alone takes no memory.
    fn array(&mut self, length: usize, depth: u32) -> Option<Value<'a>> {
        let depth = depth.checked_sub(1)?;
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(self.value(depth)?);
        }
        Some(Value::Array(items))
    }

    fn map(&mut self, length: usize, depth: u32) -> Option<Value<'a>> {
        let depth = depth.checked_sub(1)?;
        let mut entries = Vec::new();
        for _ in 0..length {
            entries.push((self.value(depth)?, self.value(depth)?));
        }
        Some(Value::Map(entries))
    }
}
