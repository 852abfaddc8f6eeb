use super::*;

#[test]
fn a_request_id_is_visible_ascii_of_bounded_length() {
    let long = "x".repeat(REQUEST_ID_LEN_MAX);
    for (text, valid) in [
        ("a", true),
        ("req-1/ü", false),
        ("", false),
        ("has space", false),
        ("tab\t", false),
        ("~!@#$%^&*()", true),
        (long.as_str(), true),
        (&format!("{long}x"), false),
    ] {
        assert_eq!(RequestId::parse(text).is_ok(), valid, "{text:?}");
    }
}
