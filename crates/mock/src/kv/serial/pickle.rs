//! Python's pickle, protocol 5, of the few shapes that are hashed.
//!
//! Everything but numbers is entered into the pickler's memo, and the tag of a second media item refers back to
//! the first. The bytes are CPython's as long as they fit one frame (64 KiB), which a block of some thousand ids
//! does.

use crate::kv::digest::{Digest, Key};

const HEAD: [u8; 3] = [0x80, 5, 0x95];
const MEMOIZE: u8 = 0x94;
const STOP: u8 = b'.';
const NONE: u8 = b'N';
const MARK: u8 = b'(';

pub(in crate::kv) fn text(text: &str, out: &mut Vec<u8>) {
    let mut pickler = Pickler::begin(out);
    pickler.text(text);
    pickler.end();
}

pub(in crate::kv) fn block(parent: &Digest, ids: &[u32], keys: &[Key<'_>], out: &mut Vec<u8>) {
    let mut pickler = Pickler::begin(out);
    pickler.out.extend_from_slice(&[b'C', parent.0.len() as u8]);
    pickler.out.extend_from_slice(&parent.0);
    pickler.memoize();
    pickler.tuple(ids, |pickler, id| pickler.integer(i64::from(*id)));
    if keys.is_empty() {
        pickler.out.push(NONE);
    } else {
        pickler.tuple(keys, Pickler::key);
    }
    pickler.close_tuple(3);
    pickler.end();
}

struct Pickler<'a> {
    out: &'a mut Vec<u8>,
    /// Where the length of the frame stands.
    length_at: usize,
    memoized: u8,
    /// The memo's entry for the tag of media items.
    media_tag: Option<u8>,
}

impl<'a> Pickler<'a> {
    fn begin(out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(&HEAD);
        let length_at = out.len();
        out.extend_from_slice(&[0; 8]);
        Self { out, length_at, memoized: 0, media_tag: None }
    }

    fn end(self) {
        self.out.push(STOP);
        let frame = self.length_at + 8;
        let length = (self.out.len() - frame) as u64;
        self.out[self.length_at..frame].copy_from_slice(&length.to_le_bytes());
    }

    fn memoize(&mut self) {
        self.out.push(MEMOIZE);
        self.memoized = self.memoized.wrapping_add(1);
    }

    fn text(&mut self, text: &str) {
        let length = text.len() as u32;
        if let Ok(length) = u8::try_from(length) {
            self.out.extend_from_slice(&[0x8c, length]);
        } else {
            self.out.push(b'X');
            self.out.extend_from_slice(&length.to_le_bytes());
        }
        self.out.extend_from_slice(text.as_bytes());
        self.memoize();
    }

    fn integer(&mut self, value: i64) {
        if let Ok(small) = u8::try_from(value) {
            self.out.extend_from_slice(&[b'K', small]);
        } else if let Ok(short) = u16::try_from(value) {
            self.out.push(b'M');
            self.out.extend_from_slice(&short.to_le_bytes());
        } else if let Ok(word) = i32::try_from(value) {
            self.out.push(b'J');
            self.out.extend_from_slice(&word.to_le_bytes());
        } else {
            let bytes = value.to_le_bytes();
            // As few bytes as keep the sign.
            let fits = |length: &usize| {
                let shift = 64 - 8 * *length as u32;
                value << shift >> shift == value
            };
            let length = (1..8).find(fits).unwrap_or(8);
            self.out.extend_from_slice(&[0x8a, length as u8]);
            self.out.extend_from_slice(&bytes[..length]);
        }
    }

    fn tuple<T>(&mut self, items: &[T], write: impl Fn(&mut Self, &T)) {
        if items.len() > 3 {
            self.out.push(MARK);
        }
        for item in items {
            write(self, item);
        }
        self.close_tuple(items.len());
    }

    fn close_tuple(&mut self, items: usize) {
        match items {
            0 => return self.out.push(b')'),
            1..=3 => self.out.push(0x84 + items as u8),
            _ => self.out.push(b't'),
        }
        self.memoize();
    }

    fn key(&mut self, key: &Key<'_>) {
        match *key {
            Key::Lora { name, path } => {
                self.text("lora");
                self.text(name);
                self.text(path);
                self.close_tuple(3);
            }
            Key::Media { identifier, offset } => {
                if let Some(entry) = self.media_tag {
                    self.out.extend_from_slice(&[b'h', entry]);
                } else {
                    self.media_tag = Some(self.memoized);
                    self.text("mm");
                }
                self.text(identifier);
                self.integer(offset);
                self.close_tuple(3);
            }
            Key::Salt(salt) => {
                self.text("cache_salt");
                self.text(salt);
                self.close_tuple(2);
            }
        }
    }
}
