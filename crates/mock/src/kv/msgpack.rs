//! MessagePack, each value in its shortest form.

/// Writes values one after the other.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn nil(&mut self) {
        self.bytes.push(0xc0);
    }

    pub(crate) fn float(&mut self, value: f64) {
        self.bytes.push(0xcb);
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn unsigned(&mut self, value: u64) {
        let bytes = value.to_be_bytes();
        match value {
            0..0x80 => self.bytes.push(bytes[7]),
            0x80..0x100 => self.put(0xcc, &bytes[7..]),
            0x100..0x1_0000 => self.put(0xcd, &bytes[6..]),
            0x1_0000..0x1_0000_0000 => self.put(0xce, &bytes[4..]),
            _ => self.put(0xcf, &bytes),
        }
    }

    pub(crate) fn integer(&mut self, value: i64) {
        let bytes = value.to_be_bytes();
        match value {
            0.. => self.unsigned(value as u64),
            -0x20.. => self.bytes.push(bytes[7]),
            -0x80.. => self.put(0xd0, &bytes[7..]),
            -0x8000.. => self.put(0xd1, &bytes[6..]),
            -0x8000_0000.. => self.put(0xd2, &bytes[4..]),
            _ => self.put(0xd3, &bytes),
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        let bytes = (text.len() as u32).to_be_bytes();
        match text.len() {
            0..0x20 => self.bytes.push(0xa0 | bytes[3]),
            0x20..0x100 => self.put(0xd9, &bytes[3..]),
            0x100..0x1_0000 => self.put(0xda, &bytes[2..]),
            _ => self.put(0xdb, &bytes),
        }
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn binary(&mut self, data: &[u8]) {
        let bytes = (data.len() as u32).to_be_bytes();
        match data.len() {
            0..0x100 => self.put(0xc4, &bytes[3..]),
            0x100..0x1_0000 => self.put(0xc5, &bytes[2..]),
            _ => self.put(0xc6, &bytes),
        }
        self.bytes.extend_from_slice(data);
    }

    /// The head of an array; its items follow.
    pub(crate) fn array(&mut self, items: usize) {
        self.collection(items, 0x90, 0xdc);
    }

    /// The head of a map; its keys and values follow.
    pub(crate) fn map(&mut self, entries: usize) {
        self.collection(entries, 0x80, 0xde);
    }

    fn collection(&mut self, count: usize, short: u8, long: u8) {
        let bytes = (count as u32).to_be_bytes();
        match count {
            0..0x10 => self.bytes.push(short | bytes[3]),
            0x10..0x1_0000 => self.put(long, &bytes[2..]),
            _ => self.put(long + 1, &bytes),
        }
    }

    fn put(&mut self, marker: u8, rest: &[u8]) {
        self.bytes.push(marker);
        self.bytes.extend_from_slice(rest);
    }
}
