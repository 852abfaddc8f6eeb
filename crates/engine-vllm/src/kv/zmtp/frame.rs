//! Bytes of the protocol: greeting, frames and commands. Pure.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::refused;

/// Signature, version, mechanism, role and padding.
pub(super) const GREETING_BYTES: usize = 64;
/// Largest body of a frame, in bytes. A batch of vLLM holds one scheduler step, well under a megabyte.
pub(super) const FRAME_BYTES_MAX: usize = 16 << 20;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What we say first: version 3.0, so that a publisher takes subscriptions as messages and sends no commands of later
/// versions.
pub(super) fn greeting() -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// Accepts a peer's greeting.
pub(super) fn mechanism(greeting: &[u8]) -> io::Result<()> {
    if greeting[0] != 0xff || greeting[9] & 1 == 0 || greeting[10] < 3 {
        return Err(refused("the peer does not speak ZMTP 3"));
    }
    let name = greeting[12..32].split(|byte| *byte == 0).next().unwrap_or_default();
    if name != b"NULL" {
        return Err(refused(format!("the peer wants {} security", String::from_utf8_lossy(name))));
    }
    Ok(())
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) command: bool,
    pub(super) more: bool,
    pub(super) body: Bytes,
}

impl Frame {
    /// Takes a frame off the front if it is there whole; refuses one that claims to be too large.
    pub(super) fn take(input: &mut BytesMut) -> io::Result<Option<Self>> {
        let Some(flags) = input.first().copied() else { return Ok(None) };
        let (header, length) = if flags & LONG == 0 {
            let Some(length) = input.get(1) else { return Ok(None) };
            (2, u64::from(*length))
        } else {
            let Some(length) = input.get(1..9) else { return Ok(None) };
            (9, u64::from_be_bytes(length.try_into().expect("eight bytes")))
        };
        if length > FRAME_BYTES_MAX as u64 {
            return Err(refused(format!("a frame of {length} bytes, over {FRAME_BYTES_MAX}")));
        }
        let length = length as usize;
        if input.len() < header + length {
            return Ok(None);
        }
        input.advance(header);
        let body = input.split_to(length).freeze();
        Ok(Some(Self { command: flags & COMMAND != 0, more: flags & MORE != 0, body }))
    }
}

/// Writes one frame of a message.
pub(super) fn message(body: &[u8], more: bool, output: &mut BytesMut) {
    write(body, u8::from(more) * MORE, output);
}

fn write(body: &[u8], flags: u8, output: &mut BytesMut) {
    if let Ok(length) = u8::try_from(body.len()) {
        output.put_u8(flags);
        output.put_u8(length);
    } else {
        output.put_u8(flags | LONG);
        output.put_u64(body.len() as u64);
    }
    output.put_slice(body);
}

/// Writes the READY command of a socket of this type.
pub(super) fn ready(socket: &str, output: &mut BytesMut) {
    let mut body = BytesMut::new();
    body.put_slice(b"\x05READY\x0bSocket-Type");
    body.put_u32(socket.len() as u32);
    body.put_slice(socket.as_bytes());
    write(&body, COMMAND, output);
}

/// The socket type that a READY command names.
pub(super) fn socket_type(ready: &Bytes) -> io::Result<Bytes> {
    let malformed = || refused("the peer's READY command is malformed");
    let mut rest = ready.clone();
    if text(&mut rest, 1).as_deref() != Some(b"READY") {
        return Err(refused(format!("the peer answered {:?}", String::from_utf8_lossy(ready))));
    }
    while !rest.is_empty() {
        let name = text(&mut rest, 1).ok_or_else(malformed)?;
        let value = text(&mut rest, 4).ok_or_else(malformed)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return Ok(value);
        }
    }
    Err(malformed())
}

/// Bytes behind a length of `width` bytes.
fn text(rest: &mut Bytes, width: usize) -> Option<Bytes> {
    let length = rest.get(..width)?.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    rest.advance(width);
    (length <= rest.len()).then(|| rest.split_to(length))
}

/// Commands after the handshake.
pub(super) mod command {
    use super::{BufMut, Bytes, BytesMut, COMMAND, write};

    /// Longest context of a PING, by the protocol (bytes).
    const CONTEXT_BYTES_MAX: usize = 16;

    /// A PING wants its context back; others, an ERROR among them, need no answer.
    pub(crate) fn answer(command: &Bytes, output: &mut BytesMut) {
        let Some(context) = command.strip_prefix(b"\x04PING").and_then(|ping| ping.get(2..)) else { return };
        let mut pong = BytesMut::new();
        pong.put_slice(b"\x04PONG");
        pong.put_slice(&context[..context.len().min(CONTEXT_BYTES_MAX)]);
        write(&pong, COMMAND, output);
    }
}

#[cfg(test)]
mod tests;
