use tito_types::{Delta, EngineError, Media};

use super::*;
use crate::testing::{bind, end, fold, outcome, prompt, rows, stream};
use crate::{Exchange, NotMigratable, VllmGenerate};

/// One image by its address.
const ONE: &str = r#"[{"type":"image_url","url":"data:,"}]"#;

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
    check("[]", "ok");
    for [parts, expected] in rows(
        r#"
        {} | Invalid content_parts: must be a list, got an object
        [1] | Invalid content_parts[0]: must be an object, got 1
        [null] | Invalid content_parts[0]: must be an object, got null
        [{}] | Invalid content_parts[0].type: is required
        [{"type":"image_url"}] | Invalid content_parts[0].url: is required
        [{"type":"image_url","url":{"url":"data:,"}}] | Invalid content_parts[0].url: must be a string, got an object
        [{"type":"image_url","url":"data:,"},{"type":"image_url","url":"data:,","detail":"low"}] | Invalid content_parts[1].detail: is not a known field
        [{"type":"image_url","url":"data:,","uuid":""}] | Invalid content_parts[0].uuid: must be 1 to 512 bytes, got 0
        "#,
    ) {
        check(parts, expected);
    }
    let flat = r#"is not supported: a part is flat: {"type":"image_url","url":"…"}"#;
    for (kind, more) in [
        ("image_url", r#""image_url":{"url":"data:,"}"#),
        ("video_url", r#""url":"data:,","video_url":[7]"#),
        ("audio_url", r#""url":"data:,","audio_url":[7]"#),
    ] {
        let expected = format!("NotExpressible content_parts[0].{kind}: {flat}");
        check(&format!(r#"[{{"type":"{kind}",{more}}}]"#), &expected);
    }
    for kind in ["", "image", "text", "Image_url", "depth_url"] {
        let expected = "Invalid content_parts[0].type: must be image_url, video_url or audio_url";
        check(&format!(r#"[{{"type":"{kind}","url":"data:,"}}]"#), expected);
    }
    let other_schemes = ["", "media.test/a.png", "file:///etc/passwd", "HTTP://h", "//h", "ftp://h", "data"];
    let schemes = other_schemes.into_iter().chain([" data:,", "https:/h"]);
    let schemes = schemes.map(|url| (url, "must begin with http://, https:// or data:"));
    let spaced = ["http://h/a b", "data:,\\n", "http://h\\u0000", "https://h\\r\\nX: y"];
    let spaced = spaced.map(|url| (url, "must not hold spaces or control characters"));
    for (url, expected) in schemes.chain(spaced) {
        let parts = format!(r#"[{{"type":"image_url","url":"{url}"}}]"#);
        check(&parts, &format!("Invalid content_parts[0].url: {expected}"));
    }
}

#[test]
fn parts_are_bounded() {
    let part = |url: &str, uuid: &str| format!(r#"{{"type":"image_url","url":"{url}","uuid":"{uuid}"}}"#);
    let list = |count| format!("[{}]", vec![part("data:,", "u"); count].join(","));
    check(&list(64), "ok");
    check(&list(65), "Invalid content_parts: must hold at most 64 entries");
    let address = |bytes: usize| format!("http://{}", "h".repeat(bytes - 7));
    let long = "Invalid content_parts[0].url: must be at most 8192 bytes unless it is data:";
    for (url, uuid, expected) in [
        (address(8192), "u".to_owned(), "ok"),
        (address(8193), "u".to_owned(), long),
        (format!("data:{}", "h".repeat(9000)), "u".to_owned(), "ok"),
        ("data:,".to_owned(), "u".repeat(512), "ok"),
        (
            "data:,".to_owned(),
            "é".repeat(257),
            "Invalid content_parts[0].uuid: must be 1 to 512 bytes, got 514",
        ),
    ] {
        check(&format!("[{}]", part(&url, &uuid)), expected);
    }
}

#[test]
fn ids_of_a_prompt_that_the_engine_expands_cannot_be_returned() {
    let said = "NotExpressible return_token_ids: is not supported with content_parts: engines do not say where in the \
        prompt they put the media; send features instead";
    for (parts, more, expected) in [
        (ONE, r#","return_token_ids":true"#, said),
        (ONE, r#","return_token_ids":true,"stream":true"#, said),
        (ONE, r#","return_token_ids":false"#, "ok"),
        (ONE, r#","features":{}"#, "ok"),
        ("[]", r#","return_token_ids":true"#, "ok"),
    ] {
        check(&format!("{parts}{more}"), expected);
    }
}

#[test]
fn the_engine_counts_a_prompt_that_it_expands() {
    for more in ["", r#","stream":true,"stream_options":{"include_usage":true}"#] {
        let reply = |exchange: &mut dyn Exchange, delta| {
            if more.is_empty() { fold(exchange, vec![delta]) } else { stream(exchange, vec![delta]) }
        };
        let exchange = || bind(&VllmGenerate, &body(&format!("{ONE}{more}"))).unwrap().exchange;
        let mut counted = exchange();
        assert_eq!(counted.usage().prompt_tokens, 0, "not known yet");
        let delta = Delta { prompt: Some(prompt(&[0; 12], Vec::new())), ..end(0, 0) };
        assert!(reply(&mut *counted, delta).unwrap().contains(r#""prompt_tokens":12"#), "{more}");
        assert_eq!(counted.usage().prompt_tokens, 12);
        let said = "nothing came about the length of the prompt".to_owned();
        assert_eq!(reply(&mut *exchange(), end(0, 0)), Err(EngineError::Protocol(said)));
    }
}

#[test]
fn prompt_log_probs_of_an_expanded_prompt_need_its_ids() {
    for (parts, sampling, asked) in [
        (ONE, r#"{"prompt_logprobs":1}"#, true),
        (ONE, r#"{"logprobs":1}"#, false),
        ("[]", r#"{"prompt_logprobs":1}"#, false),
    ] {
        let bound = bind(&VllmGenerate, &body(parts).replace("{}", sampling)).unwrap();
        assert_eq!(bound.requests[0].outputs.prompt_token_ids, asked, "{parts} {sampling}");
    }
}
