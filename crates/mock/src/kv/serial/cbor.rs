//! Canonical CBOR (RFC 8949): arrays of known length, numbers in their shortest form.

use crate::kv::digest::{Digest, Key};

const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const NULL: u8 = 0xf6;

pub(in crate::kv) fn text(text: &str, out: &mut Vec<u8>) {
    head(TEXT, text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

pub(in crate::kv) fn block(parent: &Digest, ids: &[u32], keys: &[Key<'_>], out: &mut Vec<u8>) {
    head(ARRAY, 3, out);
    head(BYTES, parent.0.len() as u64, out);
    out.extend_from_slice(&parent.0);
    head(ARRAY, ids.len() as u64, out);
    for &id in ids {
        head(UNSIGNED, u64::from(id), out);
    }
    if keys.is_empty() {
        return out.push(NULL);
    }
    head(ARRAY, keys.len() as u64, out);
    for key in keys {
        match *key {
            Key::Lora { name, path } => {
                head(ARRAY, 3, out);
                text("lora", out);
                text(name, out);
                text(path, out);
            }
            Key::Media { identifier, offset } => {
                head(ARRAY, 3, out);
                text("mm", out);
                text(identifier, out);
                integer(offset, out);
            }
            Key::Salt(salt) => {
                head(ARRAY, 2, out);
                text("cache_salt", out);
                text(salt, out);
            }
        }
    }
}

fn integer(value: i64, out: &mut Vec<u8>) {
    if value < 0 { head(NEGATIVE, !value as u64, out) } else { head(UNSIGNED, value as u64, out) }
}

/// The major type and its argument.
fn head(major: u8, argument: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    let bytes = argument.to_be_bytes();
    match argument {
        0..24 => out.push(major + bytes[7]),
        24..0x100 => out.extend_from_slice(&[major + 24, bytes[7]]),
        0x100..0x1_0000 => {
            out.push(major + 25);
            out.extend_from_slice(&bytes[6..]);
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major + 26);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(major + 27);
            out.extend_from_slice(&bytes);
        }
    }
}
