use proptest::prelude::*;

use super::*;

#[test]
fn frames_come_out_as_they_went_in_however_the_bytes_are_cut() {
    let mut wire = BytesMut::new();
    let bodies = [vec![], vec![1; 255], vec![2; 256], vec![3; 70_000]];
    for body in &bodies {
        message(body, true, &mut wire);
    }
    for cut in [1, 2, 9, 300, wire.len()] {
        let (mut input, mut found) = (BytesMut::new(), Vec::new());
        for part in wire.chunks(cut) {
            input.put_slice(part);
            while let Some(frame) = Frame::take(&mut input).expect("valid") {
                assert!(frame.more && !frame.command);
                found.push(frame.body.to_vec());
            }
        }
        assert_eq!(found, bodies, "cut {cut}");
    }
}

#[test]
fn a_frame_that_claims_too_much_is_refused_by_its_header() {
    for length in [FRAME_BYTES_MAX as u64 + 1, 1 << 50, u64::MAX] {
        let mut input = BytesMut::new();
        input.put_u8(LONG);
        input.put_u64(length);
        assert!(Frame::take(&mut input).is_err(), "{length}");
    }
}

#[test]
fn a_ping_gets_its_context_back() {
    let mut output = BytesMut::new();
    command::answer(&Bytes::from_static(b"\x04PING\x00\x0aabc"), &mut output);
    assert_eq!(&output[..], b"\x04\x08\x04PONGabc");
    output.clear();
    for other in [&b"\x05ERROR\x00"[..], b"\x04PING", b"", b"\x09SUBSCRIBE"] {
        command::answer(&Bytes::from_static(other), &mut output);
    }
    assert!(output.is_empty());
}

#[test]
fn a_peer_is_known_by_its_greeting_and_its_socket_type() {
    assert!(mechanism(&greeting()).is_ok());
    let other = |at: usize, byte: u8| {
        let mut greeting = greeting();
        greeting[at] = byte;
        mechanism(&greeting).map_err(|error| error.to_string())
    };
    assert_eq!(other(10, 2), Err("the peer does not speak ZMTP 3".to_owned()));
    assert_eq!(other(0, b'H'), Err("the peer does not speak ZMTP 3".to_owned()));
    assert_eq!(other(12, b'X'), Err("the peer wants XULL security".to_owned()));
    let mut wire = BytesMut::new();
    ready("SUB", &mut wire);
    let frame = Frame::take(&mut wire).expect("valid").expect("whole");
    assert!(frame.command);
    assert_eq!(socket_type(&frame.body).expect("a READY"), "SUB");
    for broken in [&b""[..], b"\x05READY", b"\x05READY\x0bSocket", b"\x05ERROR\x02no"] {
        assert!(socket_type(&Bytes::from_static(broken)).is_err());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut input = BytesMut::from(&bytes[..]);
        while let Ok(Some(frame)) = Frame::take(&mut input) {
            let _ = socket_type(&frame.body);
            command::answer(&frame.body, &mut BytesMut::new());
        }
    }
}
