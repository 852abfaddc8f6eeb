//! Peers of any kind: each is read or refused, within the bounds of a message, however its bytes are cut.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::scripted::read;
use super::*;

/// What a peer may say after its greeting.
#[derive(Debug, Clone)]
enum Said {
    Message { body: Vec<u8>, more: bool },
    Ready(&'static str),
    Command(Vec<u8>),
    Bytes(Vec<u8>),
}

impl Said {
    fn write(&self, wire: &mut BytesMut) {
        match self {
            Self::Message { body, more } => frame::message(body, *more, wire),
            Self::Ready(socket) => ready(socket, wire),
            Self::Command(body) => {
                wire.put_slice(&[4, u8::try_from(body.len()).expect("a short command")]);
                wire.put_slice(body);
            }
            Self::Bytes(bytes) => wire.put_slice(bytes),
        }
    }
}

fn said() -> impl Strategy<Value = Said> {
    let socket = prop::sample::select(vec!["PUB", "XPUB", "ROUTER", "SUB", ""]);
    let ping = vec(any::<u8>(), 0..40).prop_map(|context| [&b"\x04PING"[..], &context].concat());
    let body = prop_oneof![4 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), 250..700)];
    prop_oneof![
        12 => (body, prop::bool::weighted(0.7)).prop_map(|(body, more)| Said::Message { body, more }),
        2 => ping.prop_map(Said::Command),
        1 => vec(any::<u8>(), 0..20).prop_map(Said::Command),
        1 => socket.prop_map(Said::Ready),
        1 => vec(any::<u8>(), 0..20).prop_map(Said::Bytes),
    ]
}

/// The greeting of a peer, in which bytes may be wrong, and its first command, which may be missing.
fn opening() -> impl Strategy<Value = Vec<u8>> {
    let socket = prop::sample::select(vec!["PUB", "XPUB", "ROUTER", "SUB"]);
    let slip = prop::option::weighted(0.1, (0..GREETING_BYTES + 24, any::<u8>()));
    (socket, slip, prop::bool::weighted(0.95)).prop_map(|(socket, slip, is_ready)| {
        let mut wire = BytesMut::from(&greeting()[..]);
        if is_ready {
            ready(socket, &mut wire);
        }
        if let Some((at, byte)) = slip
            && let Some(found) = wire.get_mut(at)
        {
            *found = byte;
        }
        wire.to_vec()
    })
}

proptest! {
    #[test]
    fn a_peer_is_read_alike_however_its_bytes_are_cut(
        opening in opening(),
        said in vec(said(), 0..20),
        piece_bytes in 1_usize..2_000,
        subscriber in any::<bool>(),
    ) {
        let mut wire = BytesMut::from(&opening[..]);
        for said in &said {
            said.write(&mut wire);
        }
        let role = if subscriber { Role::Subscriber } else { Role::Dealer };
        let messages = read(&wire, role, piece_bytes);
        prop_assert_eq!(&messages, &read(&wire, role, 1));
        let messages = messages.unwrap_or_default();
        prop_assert!(messages.iter().all(|message| (1..=FRAMES_MAX).contains(&message.len())));
        let bytes: usize = messages.iter().flatten().map(Bytes::len).sum();
        prop_assert!(bytes <= wire.len());
    }

    #[test]
    fn messages_of_a_publisher_come_out_as_they_went_in(
        bodies in vec(vec(vec(any::<u8>(), 0..400), 1..=FRAMES_MAX), 0..8),
        piece_bytes in 1_usize..2_000,
    ) {
        let mut wire = BytesMut::from(&greeting()[..]);
        ready("PUB", &mut wire);
        for message in &bodies {
            for (at, body) in message.iter().enumerate() {
                frame::message(body, at + 1 < message.len(), &mut wire);
            }
        }
        prop_assert_eq!(read(&wire, Role::Subscriber, piece_bytes), Some(
            bodies.iter().map(|message| message.iter().cloned().map(Bytes::from).collect()).collect()
        ));
    }
}
