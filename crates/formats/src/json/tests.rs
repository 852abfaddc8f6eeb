use super::*;

#[track_caller]
fn check(write: impl FnOnce(&mut Vec<u8>), expected: &str) {
    let mut out = Vec::new();
    write(&mut out);
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn a_logprob_is_the_shortest_decimal_of_its_32_bits() {
    for (value, expected) in [
        (-1.165_469_5_f32, "-1.1654695"),
        (-0.5, "-0.5"),
        (0.0, "0.0"),
        (-1e-10, "-1e-10"),
        (f32::MIN, "-3.4028235e+38"),
        (f32::NEG_INFINITY, "-9999.0"),
    ] {
        check(|out| logprob(out, value).unwrap(), expected);
    }
}

#[test]
fn a_logprob_that_is_no_number_fails_the_request() {
    for value in [f32::NAN, f32::INFINITY] {
        assert!(matches!(logprob(&mut Vec::new(), value), Err(EngineError::Protocol(_))), "{value}");
    }
}

#[test]
fn opaque_json_fits_on_one_line_without_a_copy() {
    let text = "{\"data\":\r\n\"AA==\"}".to_owned();
    let address = text.as_ptr();
    let line = one_line(RawJson::new(text));
    assert_eq!(line, b"{\"data\":  \"AA==\"}");
    assert_eq!(line.as_ptr(), address);
}

#[test]
fn depth_counts_brackets_outside_strings() {
    for (json, expected) in
        [("1", 0), ("{}", 1), ("[[1],{\"a\":[]}]", 3), (r#"{"[{\"[{":"\\"}"#, 1), (r#"["\\",[]]"#, 2)]
    {
        assert_eq!(depth(json), expected, "{json}");
    }
}
