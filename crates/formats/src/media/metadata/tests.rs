use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// `{"a": 1, "bc": [nil, {"x": ext}], "d": bin}`.
const PAYLOAD: &[u8] = b"\x83\xa1a\x01\xa2bc\x92\xc0\x81\xa1x\xc7\x02\x03\x83\x83\xa1d\xc5\x00\x03\x81\xa1a";

#[test]
fn metadata_may_repeat_fields_and_say_nothing_new() {
    for (metadata, expected) in [
        (&b"\x80"[..], true),
        (b"\x81\xa1a\x01", true),
        (b"\x82\xa1d\xc5\x00\x03\x81\xa1a\xa1a\x01", true),
        (b"\xde\x00\x01\xa1a\x01", true),
        (b"\xdf\x00\x00\x00\x01\xa1a\x01", true),
        (PAYLOAD, true),
        (b"\x81\xa1a\x02", false),
        // What the payload holds further in is no field of it.
        (b"\x81\xa1x\xc7\x02\x03\x83\x83", false),
        (b"\x81\xa1b\x01", false),
        (b"", false),
        (b"\x01", false),
        (b"\x91\xa1a", false),
        (b"\x81\xa1a", false),
        (b"\x81\xa1a\x01\x01", false),
        (b"\x81\xa1a\xc1", false),
        (b"\xdf\xff\xff\xff\xff\xa1a\x01", false),
    ] {
        assert_eq!(repeats(metadata, PAYLOAD), expected, "{metadata:02x?}");
    }
    assert!(!repeats(b"\x81\xa1a\x01", &PAYLOAD[..PAYLOAD.len() - 1]), "a payload that breaks off");
    assert!(!repeats(b"\x81\xa1a\x01", b"not a map"));
}

/// One value of every form, whole: those without a payload, numbers, text, bytes, extensions, lists and maps.
const FORMS: [&[&[u8]]; 8] = [
    &[b"\x00", b"\x7f", b"\xff", b"\xc0", b"\xc2", b"\xc3"],
    &[b"\xcc\0", b"\xcd\0\0", b"\xce\0\0\0\0", b"\xcf\0\0\0\0\0\0\0\0", b"\xca\0\0\0\0"],
    &[b"\xd0\0", b"\xd1\0\0", b"\xd2\0\0\0\0", b"\xd3\0\0\0\0\0\0\0\0", b"\xcb\0\0\0\0\0\0\0\0"],
    &[b"\xa0", b"\xa2ab", b"\xd9\x01a", b"\xda\0\x01a", b"\xdb\0\0\0\x01a"],
    &[b"\xc4\x01a", b"\xc5\0\x01a", b"\xc6\0\0\0\x01a", b"\xc7\x01\x05a", b"\xc8\0\x01\x05a"],
    &[b"\xc9\0\0\0\x01\x05a", b"\xd4\x05a", b"\xd5\x05ab", b"\xd6\x05abcd", b"\xd7\x05abcdefgh"],
    &[b"\xd8\x05abcdefghabcdefgh", b"\x90", b"\x92\x01\x90", b"\xdc\0\x01\x01", b"\xdd\0\0\0\x01\x01"],
    &[b"\x80", b"\x81\x01\x02", b"\xde\0\x01\x01\x02", b"\xdf\0\0\0\x01\x01\x02"],
];

#[test]
fn every_form_of_a_value_is_stepped_over_whole() {
    for form in FORMS.concat() {
        let mut rest: &[u8] = &[form, &b"\x2a"[..]].concat();
        assert_eq!(skip(&mut rest, 1), Some(()), "{form:02x?}");
        assert_eq!(rest, b"\x2a", "{form:02x?}");
        for end in 0..form.len() {
            assert_eq!(skip(&mut &form[..end], 1), None, "{form:02x?} cut at {end}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_compared_or_not_read(metadata in vec(any::<u8>(), 0..60), payload in vec(any::<u8>(), 0..60)) {
        let _ = repeats(&metadata, &payload);
        prop_assert_eq!(repeats(&payload, &payload), fields(&payload).is_some());
    }

    #[test]
    fn a_part_of_the_fields_repeats_the_whole(values in vec(proptest::sample::select(FORMS.concat()), 1..10), keep in any::<u16>()) {
        let map = |kept: &dyn Fn(usize) -> bool| {
            let fields = values.iter().enumerate().filter(|(at, _)| kept(*at));
            let fields: Vec<Vec<u8>> =
                fields.map(|(at, value)| [&[0xa1, b'a' + at as u8][..], value].concat()).collect();
            [vec![0x80 | fields.len() as u8], fields.concat()].concat()
        };
        prop_assert!(repeats(&map(&|at| keep >> at & 1 == 1), &map(&|_| true)));
    }
}
