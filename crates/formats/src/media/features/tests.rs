mod remembered;

use proptest::collection::vec;
use proptest::prelude::*;
use tito_types::{Delta, Media, MediaFeatures, Modality};

use crate::media::media_identifier;
use crate::testing::{bind, catalog, context, end, events, fold, outcome, prompt, rows, stream};
use crate::{BindContext, Bound, Format, MediaCache, Refusal, Scope, VllmGenerate};

/// A body with a prompt of ten tokens.
fn body(features: &str) -> String {
    format!(r#"{{"token_ids":[0,1,2,3,4,5,6,7,8,9],"sampling_params":{{}},"features":{features}}}"#)
}

/// One image of payload `00 01`, with some of its entries replaced.
fn one(name: &str, place: &str, payload: &str) -> String {
    format!(
        r#"{{"mm_hashes":{{"image":[{name}]}},"mm_placeholders":{{"image":[{place}]}},"kwargs_data":{{"image":[{payload}]}}}}"#
    )
}

const NAME: &str = r#""a""#;
const PLACE: &str = r#"{"offset":2,"length":3}"#;
const PAYLOAD: &str = r#""AAE=""#;

fn bind_with(cache: &MediaCache, scope: Scope, features: &str) -> Result<Bound, Refusal> {
    let catalog = catalog();
    VllmGenerate.bind(body(features).as_bytes(), &BindContext { media: cache, scope, ..context(&catalog) })
}

fn items(bound: &Bound) -> Vec<MediaFeatures> {
    match &bound.requests[0].media {
        Media::Features(items) => items.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check(features: &str, expected: &str) {
    assert_eq!(outcome(&bind(&VllmGenerate, &body(features))), expected, "{features}");
}

#[test]
fn items_are_sorted_by_offset_and_their_payloads_untouched() {
    let features = r#"{
        "kwargs_data":{"video":["/w=="],"image":["AAE=","AAE="]},
        "mm_hashes":{"image":["x","y"],"video":["x"]},
        "mm_placeholders":{"video":[{"offset":4,"length":2,"is_embed":[false,true]}],
            "image":[{"length":4,"offset":6},{"offset":0,"length":4,"is_embed":null}]}}"#;
    let bound = bind(&VllmGenerate, &body(features)).unwrap();
    let item = |modality, offset, length, is_embed: Option<&[bool]>, payload: &[u8]| MediaFeatures {
        modality,
        identifier: media_identifier(modality, payload).into(),
        offset,
        length,
        is_embed: is_embed.map(Into::into),
        payload: payload.into(),
    };
    let expected = [
        item(Modality::Image, 0, 4, None, &[0, 1]),
        item(Modality::Video, 4, 2, Some(&[false, true]), &[255]),
        item(Modality::Image, 6, 4, None, &[0, 1]),
    ];
    assert_eq!(items(&bound), expected);
    assert_eq!(bound.migration, Ok(()));
}

#[test]
fn features_without_items_are_no_features() {
    for features in [
        "{}",
        "null",
        r#"{"mm_hashes":{},"mm_placeholders":{},"kwargs_data":null,"mm_metadata":{}}"#,
        r#"{"mm_hashes":{"image":[],"audio":null},"mm_placeholders":{"image":[]},"kwargs_data":{"image":[]}}"#,
    ] {
        let bound = bind(&VllmGenerate, &body(features)).unwrap_or_else(|said| panic!("{features}: {said}"));
        assert_eq!(bound.requests[0].media, Media::None, "{features}");
    }
}

#[test]
fn maps_must_have_one_shape() {
    for [features, expected] in rows(
        r#"
        [] | features: must be an object, got a list
        7 | features: must be an object, got 7
        {"x":{}} | features.x: is not a known field
        {"mm_hashes":{},"mm_hashes":{}} | features.mm_hashes: is given twice
        "#,
    ) {
        check(features, &format!("Invalid {expected}"));
    }
    let maps = |names: &str, places: &str, payloads: &str| {
        format!(r#"{{"mm_hashes":{names},"mm_placeholders":{places},"kwargs_data":{payloads}}}"#)
    };
    let (names, places, payloads) =
        (r#"{"image":["a"]}"#, r#"{"image":[{"offset":2,"length":3}]}"#, r#"{"image":["AAE="]}"#);
    check(&maps(names, places, payloads), "ok");
    let or = |cell, usual| if cell == "=" { usual } else { cell };
    for [own_names, own_places, own_payloads, expected] in rows(
        r#"
        [] | = | = | mm_hashes: must be an object, got a list
        {"depth":["a"]} | = | = | mm_hashes.depth: is not a known field
        {"image":"a"} | = | = | mm_hashes.image: must be a list, got a string
        null | = | = | mm_placeholders.image: must hold as many entries as mm_hashes, none; got 1
        = | {} | = | mm_placeholders.image: must hold as many entries as mm_hashes, 1; got none
        {"image":["a","b"]} | = | = | mm_placeholders.image: must hold as many entries as mm_hashes, 2; got 1
        = | = | {} | kwargs_data.image: must hold as many entries as mm_hashes, 1; got none
        = | = | {"image":["AAE=",null]} | kwargs_data.image: must hold as many entries as mm_hashes, 1; got 2
        = | = | {"image":["AAE="],"audio":["AAE="]} | kwargs_data.audio: must hold as many entries as mm_hashes, none; got 1
        = | = | {"image":["AAE="]},"mm_metadata":{"image":[]} | mm_metadata.image: must hold as many entries as mm_hashes, 1; got 0
        "#,
    ) {
        let features = maps(or(own_names, names), or(own_places, places), or(own_payloads, payloads));
        check(&features, &format!("Invalid features.{expected}"));
    }
}

#[test]
fn a_bad_entry_is_named_by_its_path() {
    for [place, expected] in rows(
        r#"
        [2,3] | : must be an object, got a list
        null | : must be an object, got null
        {"offset":2} | .length: is required
        {"length":2} | .offset: is required
        {"offset":2,"length":3,"end":5} | .end: is not a known field
        {"offset":2,"length":0} | .length: must be a whole number from 1 to 4294967295, got 0
        {"offset":-1,"length":3} | .offset: must be a whole number from 0 to 4294967295, got -1
        {"offset":2.0,"length":3} | .offset: must be a whole number from 0 to 4294967295, got 2.0
        {"offset":10,"length":1} | .offset: must be below the prompt length, 10; got 10
        {"offset":4294967295,"length":4294967295} | .offset: must be below the prompt length, 10; got 4294967295
        {"offset":2,"length":9} | .length: must be at most what the prompt has from there, 8; got 9
        {"offset":2,"length":3,"is_embed":[true,true]} | .is_embed: must be as long as length, 3; got 2
        {"offset":2,"length":3,"is_embed":[]} | .is_embed: must be as long as length, 3; got 0
        {"offset":2,"length":2,"is_embed":[false,false]} | .is_embed: must hold true at least once
        {"offset":2,"length":2,"is_embed":[1,0]} | .is_embed: must be a list of true and false
        "#,
    ) {
        check(&one(NAME, place, PAYLOAD), &format!("Invalid features.mm_placeholders.image[0]{expected}"));
    }
    check(&one(NAME, r#"{"offset":0,"length":10}"#, PAYLOAD), "ok");
    check(&one(NAME, r#"{"offset":9,"length":1,"is_embed":[true]}"#, PAYLOAD), "ok");
    let [longest, long] = [512, 513].map(|bytes| format!("\"{}\"", "n".repeat(bytes)));
    check(&one(&longest, PLACE, PAYLOAD), "ok");
    for (name, expected) in [
        (&*long, "must be 1 to 512 bytes, got 513"),
        ("\"\"", "must be 1 to 512 bytes, got 0"),
        ("null", "must be a string, got null"),
        ("1", "must be a string, got 1"),
    ] {
        check(&one(name, PLACE, PAYLOAD), &format!("Invalid features.mm_hashes.image[0]: {expected}"));
    }
    for (payload, expected) in [
        ("\"!!\"", "must be base64 of the standard alphabet, padded"),
        ("{}", "must be a string, got an object"),
        ("\"\"", "must not be empty"),
    ] {
        check(&one(NAME, PLACE, payload), &format!("Invalid features.kwargs_data.image[0]: {expected}"));
    }
}

#[test]
fn ranges_of_all_modalities_lie_apart() {
    let two = |image: (u32, u32), audio: (u32, u32)| {
        let place = |(offset, length)| format!(r#"[{{"offset":{offset},"length":{length}}}]"#);
        let (image, audio) = (place(image), place(audio));
        format!(
            r#"{{"mm_hashes":{{"image":["a"],"audio":["b"]}},"kwargs_data":{{"image":["AAE="],"audio":["AAE="]}},
            "mm_placeholders":{{"image":{image},"audio":{audio}}}}}"#
        )
    };
    let inside = |one: &str, other: &str| {
        let path = |modality| format!("features.mm_placeholders.{modality}[0]");
        format!("Invalid {}.offset: must not lie inside {}", path(one), path(other))
    };
    for (image, audio, expected) in [
        ((0, 3), (3, 2), "ok"),
        ((5, 5), (0, 5), "ok"),
        ((0, 3), (2, 2), &inside("audio", "image")),
        ((0, 10), (4, 1), &inside("audio", "image")),
        ((2, 2), (2, 2), &inside("audio", "image")),
        ((4, 2), (0, 5), &inside("image", "audio")),
    ] {
        check(&two(image, audio), expected);
    }
}

#[test]
fn items_and_bytes_are_bounded() {
    let list = |range: std::ops::Range<usize>, entry: &dyn Fn(usize) -> String| {
        format!("[{}]", range.map(entry).collect::<Vec<_>>().join(","))
    };
    let say = |images: usize, audios: usize| {
        let map = |entry: &dyn Fn(usize) -> String| {
            let (image, audio) = (list(0..images, entry), list(images..images + audios, entry));
            format!(r#"{{"image":{image},"audio":{audio}}}"#)
        };
        let body = format!(
            r#"{{"token_ids":{},"sampling_params":{{}},"features":{{"mm_hashes":{},"mm_placeholders":{},"kwargs_data":{}}}}}"#,
            list(0..70, &|at| at.to_string()),
            map(&|at| format!("\"{at}\"")),
            map(&|at| format!(r#"{{"offset":{at},"length":1}}"#)),
            map(&|_| PAYLOAD.to_owned())
        );
        outcome(&bind(&VllmGenerate, &body))
    };
    assert_eq!(say(64, 0), "ok");
    assert_eq!(say(30, 34), "ok");
    assert_eq!(say(30, 35), "Invalid features: must hold at most 64 items, got 65");
    assert_eq!(say(65, 0), "Invalid features.mm_hashes.image: must hold at most 64 entries");
    // Refused by its length: nothing is decoded.
    let large = format!("\"{}\"", "AAAA".repeat((16 << 20) / 3 + 1));
    check(&one(NAME, PLACE, &large), "Invalid features.kwargs_data: must hold at most 16777216 bytes in all");
}

#[test]
fn metadata_passes_when_the_payload_says_the_same() {
    // `{"a":1}` in a payload of `{"b":2,"a":1}`, then something else.
    let with = |metadata: &str| {
        one(NAME, PLACE, r#""gqFiAqFhAQ==""#).replacen(
            '{',
            &format!(r#"{{"mm_metadata":{{"image":[{metadata}]}},"#),
            1,
        )
    };
    check(&with("null"), "ok");
    check(&with(r#""gaFhAQ==""#), "ok");
    let said = "NotExpressible features.mm_metadata.image[0]: is not supported: it must be null, or repeat fields of \
        the payload as they are there";
    check(&with(r#""gaFhAg==""#), said);
    check(&with(r#""AAE=""#), said);
    check(&with("1"), "Invalid features.mm_metadata.image[0]: must be a string, got 1");
}

#[test]
fn placeholders_come_back_with_the_ids_they_belong_to() {
    let features = r#"{"mm_hashes":{"image":["x","y"],"audio":["z"]},"kwargs_data":{"audio":["AA=="],"image":["AA==","AA=="]},
        "mm_placeholders":{"image":[{"offset":6,"length":4},{"offset":0,"length":4,"is_embed":[true,false,true,false]}],
            "audio":[{"offset":4,"length":1}]}}"#;
    let rendered = r#""mm_placeholders":{"image":[{"offset":6,"length":4},{"offset":0,"length":4}],"audio":[{"offset":4,"length":1}]}"#;
    let deltas = || vec![Delta { prompt: Some(prompt(&[7, 8], Vec::new())), ..end(0, 0) }];
    let exchange = |more: &str| bind(&VllmGenerate, &body(&format!("{features}{more}"))).unwrap().exchange;
    let asked = fold(&mut *exchange(r#","return_token_ids":true"#), deltas()).unwrap();
    assert!(asked.contains(rendered), "{asked}");
    let not_asked = fold(&mut *exchange(""), deltas()).unwrap();
    assert!(not_asked.contains(r#""mm_placeholders":null"#), "{not_asked}");
    let streamed = stream(&mut *exchange(r#","return_token_ids":true,"stream":true"#), deltas()).unwrap();
    assert!(streamed.contains(rendered) && events(&streamed).len() == 1, "{streamed}");
    let streamed = stream(&mut *exchange(r#","stream":true"#), deltas()).unwrap();
    assert!(!streamed.contains("mm_placeholders"), "{streamed}");
}

/// JSON that is nearly right: each place holds what belongs there, and now and then something else.
fn nearly() -> impl Strategy<Value = String> {
    let odd = prop_oneof![Just("null"), Just("{}"), Just("[]"), Just("1"), Just("\"\""), Just("true")];
    let three = |entry: BoxedStrategy<String>| {
        vec(prop_oneof![60 => entry, 1 => odd.clone().prop_map(str::to_owned)], 3)
    };
    let name = prop_oneof![Just("\"a\""), Just("\"b\"")].prop_map(str::to_owned);
    let payload =
        prop_oneof![20 => Just("\"AAE=\""), 20 => Just("\"/w==\""), 8 => Just("null"), 1 => Just("\"?\"")];
    let entries = (
        three(name.boxed()),
        three(nearly_a_place().boxed()),
        three(payload.prop_map(str::to_owned).boxed()),
    );
    let kinds = prop_oneof![30 => Just(["image", "audio"]), 1 => Just(["image", "image"]), 1 => Just(["depth", "audio"])];
    let shape = (kinds, 0usize..3, prop_oneof![20 => Just(0usize), 1 => Just(1)]);
    (entries, shape).prop_map(|((names, places, payloads), ([one, other], count, slip))| {
        let map = |entries: &[String], slip: usize| {
            let (first, rest) = entries.split_at(count);
            format!(r#"{{"{one}":[{}],"{other}":[{}]}}"#, first.join(","), rest[slip..].join(","))
        };
        format!(
            r#"{{"mm_hashes":{},"mm_placeholders":{},"kwargs_data":{}}}"#,
            map(&names, 0),
            map(&places, slip),
            map(&payloads, 0)
        )
    })
}

fn nearly_a_place() -> impl Strategy<Value = String> {
    let number = |likely: std::ops::Range<u32>| prop_oneof![40 => likely.prop_map(i64::from), 1 => any::<i64>(), 1 => 8i64..13];
    let masked = prop_oneof![6 => Just(None), 1 => vec(any::<bool>(), 0..3).prop_map(Some)];
    (number(0..9), number(1..3), masked).prop_map(|(offset, length, mask)| {
        let mask = mask.map_or(String::new(), |mask| format!(",\"is_embed\":{mask:?}"));
        format!(r#"{{"offset":{offset},"length":{length}{mask}}}"#)
    })
}

/// Everything an engine may rely on.
fn assert_sound(items: &[MediaFeatures], prompt_tokens: u32) {
    let mut end = 0;
    for MediaFeatures { modality, identifier, offset, length, is_embed, payload } in items {
        assert!(*length >= 1 && *offset >= end, "apart and in order");
        end = offset + length;
        assert!(end <= prompt_tokens);
        assert!(!payload.is_empty());
        assert_eq!(**identifier, *media_identifier(*modality, payload));
        if let Some(mask) = is_embed {
            assert!(mask.len() == *length as usize && mask.contains(&true));
        }
    }
}

proptest! {
    #[test]
    fn what_is_accepted_is_sound_and_what_is_refused_is_blamed_on_features(features in vec(nearly(), 1..4)) {
        let cache = MediaCache::new(4 << 10);
        for features in features {
            match bind_with(&cache, Scope::SHARED, &features) {
                Ok(bound) => match &bound.requests[0].media {
                    Media::None => {}
                    Media::Features(items) => assert_sound(items, 10),
                    Media::Raw(_) => panic!("{features}"),
                },
                Err(refusal) => prop_assert!(refusal.param.unwrap().starts_with("features"), "{features}"),
            }
        }
    }
}
