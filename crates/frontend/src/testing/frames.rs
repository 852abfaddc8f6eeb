use tito_test_support::http::Raw;

use std::net::SocketAddr;

/// Types of HTTP/2 frames (RFC 9113, section 6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GO_AWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Flags: the last frame of a stream, which on SETTINGS and PING says acknowledged, and the last of a head.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Error codes (RFC 9113, section 7).
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// The setting for how many streams a peer may have open.
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;

/// One frame as it is on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The first four bytes of the payload, where an error code stands in RST_STREAM.
    pub(crate) fn number(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().expect("four bytes"))
    }

    /// The error code of a GOAWAY.
    pub(crate) fn away_code(&self) -> u32 {
        u32::from_be_bytes(self.payload[4..8].try_into().expect("eight bytes"))
    }

    /// The value of a setting in a SETTINGS frame.
    pub(crate) fn setting(&self, id: u16) -> Option<u32> {
        let of = |entry: &[u8]| u32::from_be_bytes(entry[2..6].try_into().expect("six bytes"));
        self.payload.chunks(6).find(|entry| entry[..2] == id.to_be_bytes()).map(of)
    }
}

/// The bytes of one frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A head that asks for `path`, compressed without state: method and scheme from the static table, the rest as literals.
pub(crate) fn head(post: bool, path: &str) -> Vec<u8> {
    let mut block = vec![if post { 0x83 } else { 0x82 }, 0x86, 0x01, 1, b't', 0x04];
    block.push(u8::try_from(path.len()).expect("a short path"));
    block.extend(path.as_bytes());
    block
}

/// A whole request of a stream with the body `{}`.
pub(crate) fn post(stream: u32) -> Vec<u8> {
    let mut bytes = frame(HEADERS, END_HEADERS, stream, &head(true, "/inference/v1/generate"));
    bytes.extend(frame(DATA, END_STREAM, stream, b"{}"));
    bytes
}

/// A request of a stream that has no body.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &head(false, path))
}

/// The end of a stream that its client gives up.
pub(crate) fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// A client of HTTP/2 that sends exactly the frames it is given.
pub(crate) struct Frames {
    pub(crate) raw: Raw,
    /// The server's first SETTINGS.
    pub(crate) settings: Frame,
}

impl Frames {
    /// Connects and exchanges settings; ours are all defaults.
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        let mut raw = Raw::connect(addr).await;
        raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        raw.send(frame(SETTINGS, 0, 0, &[])).await;
        let settings = next(&mut raw).await.expect("settings");
        assert_eq!(settings.kind, SETTINGS);
        raw.send(frame(SETTINGS, END_STREAM, 0, &[])).await;
        Self { raw, settings }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.raw.send(bytes).await;
    }

    /// The next frame that is about a stream or the end of the connection; none when the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = next(&mut self.raw).await?;
            if !matches!(frame.kind, SETTINGS | PING | WINDOW_UPDATE) {
                return Some(frame);
            }
        }
    }

    /// The error code the server goes away with; frames before it are skipped. None when it closed without one.
    pub(crate) async fn away(&mut self) -> Option<u32> {
        loop {
            let frame = self.next().await?;
            if frame.kind == GO_AWAY {
                return Some(frame.away_code());
            }
        }
    }
}

async fn next(raw: &mut Raw) -> Option<Frame> {
    let header = raw.try_exactly(9).await?;
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
    let payload = raw.try_exactly(length as usize).await?;
    let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
    Some(Frame { kind: header[3], flags: header[4], stream, payload })
}
