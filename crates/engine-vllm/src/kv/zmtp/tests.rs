mod peers;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::frame::{FRAME_BYTES_MAX, greeting, ready};
use super::*;

/// The peer's side after it greeted as a socket of this type.
async fn peer(mut io: DuplexStream, socket: &str) -> DuplexStream {
    let mut hello = BytesMut::from(&greeting()[..]);
    ready(socket, &mut hello);
    io.write_all(&hello).await.expect("the link reads");
    let mut heard = [0; GREETING_BYTES];
    io.read_exact(&mut heard).await.expect("the link greets");
    io
}

async fn linked(socket: &str, role: Role) -> (io::Result<Link>, DuplexStream) {
    let (near, far) = duplex(1 << 10);
    tokio::join!(Link::open(Box::new(near), role), peer(far, socket))
}

#[tokio::test]
async fn a_peer_of_the_wrong_kind_is_refused() {
    let (refused, _) = linked("SUB", Role::Subscriber).await;
    assert_eq!(refused.err().map(|error| error.to_string()), Some("the peer is a SUB socket".to_owned()));
    let (link, _) = linked("XPUB", Role::Subscriber).await;
    assert!(link.is_ok());
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_no_byte() {
    let (link, mut peer) = linked("PUB", Role::Subscriber).await;
    let mut link = link.expect("linked");
    let mut wire = BytesMut::new();
    for body in [&b"kv"[..], &[7; 300], b"end"] {
        frame::message(body, body != b"end", &mut wire);
    }
    let mut found = None;
    for byte in wire {
        peer.write_all(&[byte]).await.expect("the link reads");
        assert!(found.is_none(), "the message is not whole");
        tokio::select! {
            biased;
            message = link.next() => found = Some(message.expect("valid")),
            () = tokio::task::yield_now() => {}
        }
    }
    let found = if let Some(found) = found { found } else { link.next().await.expect("valid") };
    assert_eq!(found, [Bytes::from_static(b"kv"), Bytes::from(vec![7; 300]), Bytes::from_static(b"end")]);
}

#[tokio::test]
async fn a_message_without_an_end_and_a_frame_without_a_bound_end_the_link() {
    let (link, mut peer) = linked("PUB", Role::Subscriber).await;
    let mut wire = BytesMut::new();
    for _ in 0..=FRAMES_MAX {
        frame::message(b"x", true, &mut wire);
    }
    peer.write_all(&wire).await.expect("the link reads");
    let error = link.expect("linked").next().await.expect_err("too many frames");
    assert_eq!(error.to_string(), "a message of more than 8 frames");

    let (link, mut peer) = linked("PUB", Role::Subscriber).await;
    let mut claim = vec![2];
    claim.extend((FRAME_BYTES_MAX as u64 + 1).to_be_bytes());
    peer.write_all(&claim).await.expect("the link reads");
    let error = link.expect("linked").next().await.expect_err("too large");
    assert_eq!(error.to_string(), "a frame of 16777217 bytes, over 16777216");
}

#[tokio::test]
async fn a_ping_between_messages_is_answered() {
    let (link, mut peer) = linked("PUB", Role::Subscriber).await;
    peer.write_all(b"\x04\x0a\x04PING\x00\x0aabc\x00\x01m").await.expect("the link reads");
    let mut link = link.expect("linked");
    assert_eq!(link.next().await.expect("valid"), [Bytes::from_static(b"m")]);
    let mut ready = BytesMut::new();
    frame::ready("SUB", &mut ready);
    let mut heard = vec![0; ready.len() + 10];
    tokio::select! {
        message = link.next() => panic!("no message follows: {message:?}"),
        heard = peer.read_exact(&mut heard) => assert_eq!(heard.expect("answered"), ready.len() + 10),
    }
    assert_eq!(&heard[ready.len()..], b"\x04\x08\x04PONGabc");
}

#[tokio::test]
async fn the_end_of_the_connection_is_an_error() {
    let (link, peer) = linked("PUB", Role::Subscriber).await;
    drop(peer);
    let mut link = link.expect("linked");
    link.output.clear();
    let error = link.next().await.expect_err("closed");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}
