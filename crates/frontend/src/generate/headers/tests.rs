use http::{HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

#[track_caller]
fn check_routing(pairs: &[(&'static str, &str)], expected: Result<(Option<&str>, Option<u32>), &str>) {
    let read = Routing::read(&headers(pairs));
    match (read, expected) {
        (Ok(routing), Ok((session, rank))) => {
            assert_eq!((routing.session.as_deref(), routing.rank), (session, rank), "{pairs:?}");
        }
        (Err(Door::Header { name, .. }), Err(expected)) => assert_eq!(name, expected, "{pairs:?}"),
        (read, expected) => panic!("{pairs:?}: {read:?}, expected {expected:?}"),
    }
}

#[test]
fn session_and_rank_are_read_or_refused_by_name() {
    let long = "s".repeat(SESSION_CHARS_MAX);
    check_routing(&[], Ok((None, None)));
    check_routing(&[("x-session-id", "a")], Ok((Some("a"), None)));
    check_routing(&[("x-smg-routing-key", "k"), ("x-dynamo-session-id", "d")], Ok((Some("d"), None)));
    check_routing(&[("x-smg-routing-key", "k"), ("x-session-id", "s")], Ok((Some("s"), None)));
    check_routing(&[("x-session-id", &long)], Ok((Some(&long), None)));
    check_routing(&[("x-session-id", &format!("{long}s"))], Err("x-session-id"));
    check_routing(&[("x-session-id", "")], Err("x-session-id"));
    check_routing(&[("x-dynamo-session-id", "two words")], Err("x-dynamo-session-id"));
    for bad in ["", "two words", "é", &format!("{long}s")] {
        check_routing(&[("x-smg-routing-key", bad), ("x-session-id", "s")], Err("x-smg-routing-key"));
    }
    check_routing(&[(RANK, "0")], Ok((None, Some(0))));
    check_routing(&[(RANK, "4294967295")], Ok((None, Some(u32::MAX))));
    for bad in ["", "-1", "+1", "4294967296", "one", "1.0", "1 2", "0x1"] {
        check_routing(&[(RANK, bad)], Err(RANK));
    }
}

#[test]
fn a_worker_is_pinned_by_name() {
    let worker = |name: &str| Routing::read(&headers(&[(WORKER, name)]));
    let long = "w".repeat(WORKER_CHARS_MAX);
    for name in ["w1", "vllm://gpu-7.test:50051", &long] {
        assert_eq!(worker(name).unwrap().worker.unwrap().as_str(), name);
    }
    for bad in ["", "two words", "é", &format!("{long}w")] {
        assert!(matches!(worker(bad), Err(Door::Header { name: WORKER, .. })), "{bad:?}");
    }
}

#[test]
fn a_header_may_be_repeated_but_not_with_another_value() {
    for name in SESSION.into_iter().chain([RANK, WORKER]) {
        let read = |values: [&'static str; 2]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(name, HeaderValue::from_static(value));
            }
            Routing::read(&headers)
        };
        assert!(read(["7", "7"]).is_ok(), "{name}");
        let Err(Door::Header { name: blamed, .. }) = read(["7", "8"]) else { panic!("{name}") };
        assert_eq!(blamed, name);
    }
    let mut later = headers(&[("x-session-id", "s")]);
    later.append("x-smg-routing-key", HeaderValue::from_static("a"));
    later.append("x-smg-routing-key", HeaderValue::from_static("b"));
    assert!(Routing::read(&later).is_err(), "a name that is not read must still be consistent");
}

#[test]
fn a_body_must_be_json_by_its_own_account() {
    let accepted = "application/json, Application/JSON, application/json; charset=utf-8, \
        application/json;odata=verbose, application/vnd.api+json, application/problem+JSON ; x=y";
    let refused =
        "text/plain, text/json, application/x-www-form-urlencoded, image/svg+json, +json, , json".split(", ");
    let accepted = accepted.split(", ").map(|content_type| (content_type, Ok(())));
    for (content_type, expected) in accepted.chain(refused.map(|refused| (refused, Err(Door::MediaType)))) {
        let checked = check_content(&headers(&[("content-type", content_type)]));
        assert_eq!(checked, expected, "{content_type:?}");
    }
    assert_eq!(check_content(&HeaderMap::new()), Ok(()));
}

#[test]
fn a_compressed_body_is_refused() {
    for (encoding, expected) in
        [("gzip", Err(Door::Encoding)), ("identity", Ok(())), ("zstd, identity", Err(Door::Encoding))]
    {
        let pairs = [("content-type", "application/json"), ("content-encoding", encoding)];
        assert_eq!(check_content(&headers(&pairs)), expected, "{encoding}");
    }
}

#[test]
fn a_session_synonym_that_is_not_text_is_refused_beside_a_good_session() {
    let mut both = headers(&[("x-session-id", "s")]);
    both.insert("x-smg-routing-key", HeaderValue::from_bytes(b"\xff").unwrap());
    let Err(Door::Header { name, message }) = Routing::read(&both) else { panic!("it is not ignored") };
    assert_eq!(name, "x-smg-routing-key");
    assert_eq!(message, "must be 1 to 256 visible ASCII characters");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..300), at in 0usize..7) {
        let name = [SESSION[0], SESSION[1], SESSION[2], RANK, WORKER, "content-type", "content-encoding"][at];
        let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
        let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value)]);
        if let Ok(Routing { session: Some(session), .. }) = Routing::read(&headers) {
            prop_assert_eq!(session.as_bytes(), &bytes[..]);
            prop_assert!(bytes.iter().all(u8::is_ascii_graphic));
        }
        let _ = check_content(&headers);
    }

    #[test]
    fn a_rank_reads_back_as_it_was_written(rank in any::<u32>()) {
        prop_assert_eq!(parse_rank(rank.to_string().as_bytes()), Ok(rank));
    }
}
