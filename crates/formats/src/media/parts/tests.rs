use tito_types::Media;

use super::*;
use crate::testing::{bind, outcome};
use crate::{NotMigratable, VllmGenerate};

fn body(parts: &str) -> String {
    format!(r#"{{"token_ids":[1,2,3],"sampling_params":{{}},"content_parts":{parts}}}"#)
}

#[track_caller]
fn check(parts: &str, expected: &str) {
    assert_eq!(outcome(&bind(&VllmGenerate, &body(parts))), expected, "{parts}");
}

#[test]
fn parts_keep_their_order_and_addresses_and_get_a_name_only_where_the_client_gave_one() {
    let parts = r#"[{"type":"image_url","url":"data:image/png;base64,AA+/=","uuid":null},
        {"type":"audio_url","url":"http://h/a?b=%20","uuid":"é u"},{"url":"https://h","type":"video_url"}]"#;
    let bound = bind(&VllmGenerate, &body(parts)).unwrap();
    let part = |modality, url: &str, identifier: Option<&str>| RawMedia {
        modality,
        url: url.into(),
        identifier: identifier.map(Into::into),
    };
    // Computed apart from this code, from the words of the documentation.
    let named = "tito-raw:c50b09ddc47a26679e9678df2258378203241ce3edee3ef43ecfb089cb4d75a8";
    let expected = [
        part(Modality::Image, "data:image/png;base64,AA+/=", None),
        part(Modality::Audio, "http://h/a?b=%20", Some(named)),
        part(Modality::Video, "https://h", None),
    ];
    assert_eq!(bound.requests[0].media, Media::Raw(expected.into()));
    assert_eq!(bound.migration, Err(NotMigratable::RawMedia));
}

/// What engines are told that an item is.
fn identifier(kind: &str, url: &str, uuid: &str) -> String {
    let parts = format!(r#"[{{"type":"{kind}_url","url":"{url}","uuid":"{uuid}"}}]"#);
    match &bind(&VllmGenerate, &body(&parts)).unwrap().requests[0].media {
        Media::Raw(items) => items[0].identifier.as_deref().expect("it was named").to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_makes_no_two_things_one_and_imitates_nothing() {
    let features = crate::media::media_identifier(Modality::Image, b"payload-a");
    let other = identifier("image", "data:,a", "cat");
    let all = [
        features.clone(),
        identifier("image", "data:,a", "dog"),
        identifier("image", "data:,b", "cat"),
        identifier("video", "data:,a", "cat"),
        identifier("image", "data:,ac", "at"),
        identifier("image", "data:,a", &features),
        identifier("image", "data:,a", &other),
        other.clone(),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one), "{one}");
        assert_eq!(one.starts_with("tito-mm:"), at == 0, "{one}");
    }
    assert_eq!(identifier("image", "data:,a", "cat"), other, "the same again is the same");
}

#[test]
fn a_part_that_cannot_be_used_is_named() {
    let flat = r#"is not supported: a part is flat: {"type":"image_url","url":"…"}"#;
    for (parts, expected) in [
        ("[]", "ok".to_owned()),
        ("{}", "Invalid content_parts: must be a list, got an object".to_owned()),
        ("[1]", "Invalid content_parts[0]: must be an object, got 1".to_owned()),
        ("[null]", "Invalid content_parts[0]: must be an object, got null".to_owned()),
        ("[{}]", "Invalid content_parts[0].type: is required".to_owned()),
        (r#"[{"type":"image_url"}]"#, "Invalid content_parts[0].url: is required".to_owned()),
        (
            r#"[{"type":"image_url","image_url":{"url":"data:,"}}]"#,
            format!("NotExpressible content_parts[0].image_url: {flat}"),
        ),
        (
            r#"[{"type":"video_url","url":"data:,","video_url":[7]}]"#,
            format!("NotExpressible content_parts[0].video_url: {flat}"),
        ),
        (
            r#"[{"type":"audio_url","url":"data:,","audio_url":[7]}]"#,
            format!("NotExpressible content_parts[0].audio_url: {flat}"),
        ),
        (
            r#"[{"type":"image_url","url":{"url":"data:,"}}]"#,
            "Invalid content_parts[0].url: must be a string, got an object".to_owned(),
        ),
        (
            r#"[{"type":"image_url","url":"data:,"},{"type":"image_url","url":"data:,","detail":"low"}]"#,
            "Invalid content_parts[1].detail: is not a known field".to_owned(),
        ),
        (
            r#"[{"type":"image_url","url":"data:,","uuid":""}]"#,
            "Invalid content_parts[0].uuid: must be 1 to 512 bytes, got 0".to_owned(),
        ),
    ] {
        check(parts, &expected);
    }
    for kind in ["", "image", "text", "Image_url", "depth_url"] {
        check(
            &format!(r#"[{{"type":"{kind}","url":"data:,"}}]"#),
            "Invalid content_parts[0].type: must be image_url, video_url or audio_url",
        );
    }
    for url in [
        "",
        "media.test/a.png",
        "file:///etc/passwd",
        "HTTP://h",
        "//h",
        "ftp://h",
        "data",
        " data:,",
        "https:/h",
    ] {
        check(
            &format!(r#"[{{"type":"image_url","url":"{url}"}}]"#),
            "Invalid content_parts[0].url: must begin with http://, https:// or data:",
        );
    }
    for url in ["http://h/a b", "data:,\\n", "http://h\\u0000", "https://h\\r\\nX: y"] {
        check(
            &format!(r#"[{{"type":"image_url","url":"{url}"}}]"#),
            "Invalid content_parts[0].url: must not hold spaces or control characters",
        );
    }
}

#[test]
fn parts_are_bounded() {
    let part = |url: &str, uuid: &str| format!(r#"{{"type":"image_url","url":"{url}","uuid":"{uuid}"}}"#);
    let list = |count| format!("[{}]", vec![part("data:,", "u"); count].join(","));
    check(&list(64), "ok");
    check(&list(65), "Invalid content_parts: must hold at most 64 entries");
    let address = |bytes: usize| format!("http://{}", "h".repeat(bytes - 7));
    check(&format!("[{}]", part(&address(8192), "u")), "ok");
    check(
        &format!("[{}]", part(&address(8193), "u")),
        "Invalid content_parts[0].url: must be at most 8192 bytes unless it is data:",
    );
    check(&format!("[{}]", part(&format!("data:{}", "h".repeat(9000)), "u")), "ok");
    check(&format!("[{}]", part("data:,", &"u".repeat(512))), "ok");
    check(
        &format!("[{}]", part("data:,", &"é".repeat(257))),
        "Invalid content_parts[0].uuid: must be 1 to 512 bytes, got 514",
    );
}

#[test]
fn ids_of_a_prompt_that_the_engine_expands_cannot_be_returned() {
    let parts = r#"[{"type":"image_url","url":"data:,"}]"#;
    let said = "NotExpressible return_token_ids: is not supported with content_parts: engines do not say where in the \
        prompt they put the media; send features instead";
    for (more, expected) in [
        (r#","return_token_ids":true"#, said),
        (r#","return_token_ids":true,"stream":true"#, said),
        (r#","return_token_ids":false"#, "ok"),
        (r#","features":{}"#, "ok"),
    ] {
        let body = body(&format!("{parts}{more}"));
        assert_eq!(outcome(&bind(&VllmGenerate, &body)), expected, "{more}");
    }
    let none = body(r#"[],"return_token_ids":true"#);
    assert_eq!(outcome(&bind(&VllmGenerate, &none)), "ok");
}

#[test]
fn the_engine_counts_a_prompt_that_it_expands() {
    let parts = r#"[{"type":"image_url","url":"data:,"}]"#;
    let facts = || crate::testing::prompt(&[0; 12], Vec::new());
    for stream in [false, true] {
        let more = if stream { r#","stream":true,"stream_options":{"include_usage":true}"# } else { "" };
        let mut exchange = bind(&VllmGenerate, &body(&format!("{parts}{more}"))).unwrap().exchange;
        assert_eq!(exchange.usage().prompt_tokens, 0, "not known yet");
        let delta = tito_types::Delta { prompt: Some(facts()), ..crate::testing::end(0, 0) };
        let reply = if stream {
            crate::testing::stream(&mut *exchange, vec![delta])
        } else {
            crate::testing::fold(&mut *exchange, vec![delta])
        };
        assert!(reply.unwrap().contains(r#""prompt_tokens":12"#), "stream = {stream}");
        assert_eq!(exchange.usage().prompt_tokens, 12);
        let mut silent = bind(&VllmGenerate, &body(&format!("{parts}{more}"))).unwrap().exchange;
        let reply = if stream {
            crate::testing::stream(&mut *silent, vec![crate::testing::end(0, 0)])
        } else {
            crate::testing::fold(&mut *silent, vec![crate::testing::end(0, 0)])
        };
        let said = "nothing came about the length of the prompt".to_owned();
        assert_eq!(reply, Err(tito_types::EngineError::Protocol(said)));
    }
}

#[test]
fn prompt_log_probs_of_an_expanded_prompt_need_its_ids() {
    let asks = |parts: &str, sampling: &str| {
        let body = body(parts).replace("{}", sampling);
        bind(&VllmGenerate, &body).unwrap().requests[0].outputs.prompt_token_ids
    };
    let parts = r#"[{"type":"image_url","url":"data:,"}]"#;
    assert!(asks(parts, r#"{"prompt_logprobs":1}"#));
    assert!(!asks(parts, r#"{"logprobs":1}"#));
    assert!(!asks("[]", r#"{"prompt_logprobs":1}"#));
}
