use proptest::prelude::*;

use super::*;

#[test]
fn integers_of_every_width_are_read() {
    for (bytes, expected) in [
        (&[0x00][..], 0),
        (&[0x7f], 127),
        (&[0xff], -1),
        (&[0xe0], -32),
        (&[0xcc, 0xff], 255),
        (&[0xcd, 0x01, 0x00], 256),
        (&[0xce, 0xff, 0xff, 0xff, 0xff], i128::from(u32::MAX)),
        (&[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], i128::from(u64::MAX)),
        (&[0xd0, 0x80], -128),
        (&[0xd1, 0x80, 0x00], -32768),
        (&[0xd2, 0x80, 0, 0, 0], i128::from(i32::MIN)),
        (&[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0], i128::from(i64::MIN)),
    ] {
        let mut reader = Reader::new(bytes);
        assert_eq!((reader.int(), reader.kind()), (Ok(expected), None), "{bytes:x?}");
        assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).int(), Err(Malformed));
        assert_eq!(Reader::new(bytes).u32().ok(), u32::try_from(expected).ok());
    }
}

#[test]
fn a_length_that_the_bytes_cannot_hold_is_refused_before_anything_is_taken() {
    for bytes in [
        &[0xdd, 0xff, 0xff, 0xff, 0xff, 0x01][..],
        &[0xdf, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0xdb, 0xff, 0xff, 0xff, 0xff, b'a'],
        &[0xc6, 0xff, 0xff, 0xff, 0xff, b'a'],
        &[0xc9, 0xff, 0xff, 0xff, 0xff, 1, b'a'],
        &[0x93, 0x01, 0x02],
        &[0x81, 0x01],
        &[],
    ] {
        assert_eq!(Reader::new(bytes).value(), Err(Malformed), "{bytes:x?}");
    }
    assert_eq!(Reader::new(&[0xdd, 0xff, 0xff, 0xff, 0xff, 0x01]).array(), Err(Malformed));
    assert_eq!(Reader::new(&[0xdf, 0xff, 0xff, 0xff, 0xff, 0x01]).map(), Err(Malformed));
}

#[test]
fn nesting_of_any_depth_is_passed_over_without_recursion() {
    let mut deep = vec![0x91; 1 << 20];
    assert_eq!(Reader::new(&deep).value(), Err(Malformed));
    deep.push(0xc0);
    assert_eq!(Reader::new(&deep).value().map(<[u8]>::len), Ok((1 << 20) + 1));
}

proptest! {
    #[test]
    fn any_bytes_are_a_value_or_malformed(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut reader = Reader::new(&bytes);
        while reader.value().is_ok() {}
        let mut reader = Reader::new(&bytes);
        let _ = (reader.kind(), reader.nil(), reader.array(), reader.map(), reader.int());
        let _ = (reader.str(), reader.bin(), reader.u32());
    }
}
