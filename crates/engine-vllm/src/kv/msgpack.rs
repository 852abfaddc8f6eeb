//! The part of MessagePack that event batches use, read in place. Lengths are claims until the bytes are there: nothing
//! here allocates, recurses or reads past the end.

/// Bytes that are no MessagePack, or not the value that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What a value is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Nil,
    Int,
    Str,
    Bin,
    Array,
    Map,
    Other,
}

/// The bytes that were not read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        Some(match self.rest.first()? {
            0xc0 => Kind::Nil,
            0x00..=0x7f | 0xcc..=0xd3 | 0xe0..=0xff => Kind::Int,
            0xa0..=0xbf | 0xd9..=0xdb => Kind::Str,
            0xc4..=0xc6 => Kind::Bin,
            0x90..=0x9f | 0xdc | 0xdd => Kind::Array,
            0x80..=0x8f | 0xde | 0xdf => Kind::Map,
            0xc1..=0xc3 | 0xc7..=0xcb | 0xd4..=0xd8 => Kind::Other,
        })
    }

    /// Takes a nil if one comes next.
    pub(crate) fn nil(&mut self) -> bool {
        let nil = self.kind() == Some(Kind::Nil);
        if nil {
            self.rest = &self.rest[1..];
        }
        nil
    }

    /// Elements of the array that comes next.
    pub(crate) fn array(&mut self) -> Result<usize, Malformed> {
        let claimed = match self.byte()? {
            marker @ 0x90..=0x9f => usize::from(marker & 0x0f),
            0xdc => self.length(2)?,
            0xdd => self.length(4)?,
            _ => return Err(Malformed),
        };
        self.possible(claimed)
    }

    /// Pairs of the map that comes next.
    pub(crate) fn map(&mut self) -> Result<usize, Malformed> {
        let claimed = match self.byte()? {
            marker @ 0x80..=0x8f => usize::from(marker & 0x0f),
            0xde => self.length(2)?,
            0xdf => self.length(4)?,
            _ => return Err(Malformed),
        };
        self.possible(claimed)
    }

    /// An integer of at most 64 bits; a negative one in two's complement.
    #[inline]
    pub(crate) fn int(&mut self) -> Result<i128, Malformed> {
        Ok(match self.byte()? {
            marker @ 0x00..=0x7f => i128::from(marker),
            marker @ 0xe0..=0xff => i128::from(marker.cast_signed()),
            0xcc => i128::from(self.byte()?),
            0xcd => i128::from(u16::from_be_bytes(self.fixed()?)),
            0xce => i128::from(u32::from_be_bytes(self.fixed()?)),
            0xcf => i128::from(u64::from_be_bytes(self.fixed()?)),
            0xd0 => i128::from(i8::from_be_bytes(self.fixed()?)),
            0xd1 => i128::from(i16::from_be_bytes(self.fixed()?)),
            0xd2 => i128::from(i32::from_be_bytes(self.fixed()?)),
            0xd3 => i128::from(i64::from_be_bytes(self.fixed()?)),
            _ => return Err(Malformed),
        })
    }

    /// An integer that fits 32 bits unsigned.
    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        // What nearly every token id is.
        let (number, bytes) = match *self.rest {
            [0xcd, b1, b0, ..] => (u32::from(u16::from_be_bytes([b1, b0])), 3),
            [0xce, b3, b2, b1, b0, ..] => (u32::from_be_bytes([b3, b2, b1, b0]), 5),
            [small @ 0x00..=0x7f, ..] => (u32::from(small), 1),
            _ => return u32::try_from(self.int()?).map_err(|_| Malformed),
        };
        self.rest = &self.rest[bytes..];
        Ok(number)
    }

    pub(crate) fn str(&mut self) -> Result<&'a str, Malformed> {
        let length = match self.byte()? {
            marker @ 0xa0..=0xbf => usize::from(marker & 0x1f),
            0xd9 => self.length(1)?,
            0xda => self.length(2)?,
            0xdb => self.length(4)?,
            _ => return Err(Malformed),
        };
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed)
    }

    pub(crate) fn bin(&mut self) -> Result<&'a [u8], Malformed> {
        let length = match self.byte()? {
            0xc4 => self.length(1)?,
            0xc5 => self.length(2)?,
            0xc6 => self.length(4)?,
            _ => return Err(Malformed),
        };
        self.take(length)
    }

    /// Takes one value of any kind and gives its bytes.
    pub(crate) fn value(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.rest;
        let mut values = 1_u64;
        while values > 0 {
            values -= 1;
            let (bytes, inner) = match self.byte()? {
                0x00..=0x7f | 0xc0..=0xc3 | 0xe0..=0xff => (0, 0),
                marker @ 0x80..=0x8f => (0, 2 * u64::from(marker & 0x0f)),
                marker @ 0x90..=0x9f => (0, u64::from(marker & 0x0f)),
                marker @ 0xa0..=0xbf => (usize::from(marker & 0x1f), 0),
                0xc4 | 0xd9 => (self.length(1)?, 0),
                0xc5 | 0xda => (self.length(2)?, 0),
                0xc6 | 0xdb => (self.length(4)?, 0),
                0xc7 => (self.length(1)? + 1, 0),
                0xc8 => (self.length(2)? + 1, 0),
                0xc9 => (self.length(4)? + 1, 0),
                0xcc | 0xd0 => (1, 0),
                0xcd | 0xd1 | 0xd4 => (2, 0),
                0xd5 => (3, 0),
                0xca | 0xce | 0xd2 => (4, 0),
                0xd6 => (5, 0),
                0xcb | 0xcf | 0xd3 => (8, 0),
                0xd7 => (9, 0),
                0xd8 => (17, 0),
                0xdc => (0, self.length(2)? as u64),
                0xdd => (0, self.length(4)? as u64),
                0xde => (0, 2 * self.length(2)? as u64),
                0xdf => (0, 2 * self.length(4)? as u64),
            };
            self.take(bytes)?;
            values += inner;
            if values > self.rest.len() as u64 {
                return Err(Malformed);
            }
        }
        Ok(&start[..start.len() - self.rest.len()])
    }

    /// A claimed count of elements, each of which takes a byte at least.
    fn possible(&self, claimed: usize) -> Result<usize, Malformed> {
        if claimed <= self.rest.len() { Ok(claimed) } else { Err(Malformed) }
    }

    fn length(&mut self, bytes: usize) -> Result<usize, Malformed> {
        Ok(self.take(bytes)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*byte)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
