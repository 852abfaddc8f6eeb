//! Payloads that were left out, and what a request leaves behind for later ones.

use super::{NAME, PAYLOAD, PLACE, bind_with, body, items, one};
use crate::testing::{catalog, context, outcome, rows};
use crate::{BindContext, Format, MediaCache, Scope, VllmGenerate};

#[test]
fn a_payload_left_out_is_the_one_seen_before() {
    let cache = MediaCache::new(1 << 20);
    let scope = Scope::of_key([1; 32]);
    let bind = |features: &str| bind_with(&cache, scope, features);
    let said = "MediaNotCached features.kwargs_data.image[0]: is not remembered here under its mm_hashes entry; \
        send the request again with the data";
    let null = one(NAME, PLACE, "null");
    assert_eq!(outcome(&bind(&null)), said);
    let sent = items(&bind(&one(NAME, PLACE, PAYLOAD)).unwrap());
    assert_eq!(items(&bind(&null).unwrap()), sent);
    let no_map = r#"{"mm_hashes":{"image":["a"]},"mm_placeholders":{"image":[{"offset":2,"length":3}]}}"#;
    assert_eq!(items(&bind(no_map).unwrap()), sent);
    let moved = items(&bind(&one(NAME, r#"{"offset":0,"length":1}"#, "null")).unwrap());
    assert_eq!((moved[0].offset, &moved[0].identifier), (0, &sent[0].identifier));
    assert_eq!(outcome(&bind(&one("\"b\"", PLACE, "null"))), said);
    assert_eq!(outcome(&bind_with(&cache, Scope::SHARED, &null)), said);
    assert_eq!(outcome(&bind_with(&cache, Scope::of_key([2; 32]), &null)), said);
    let replaced = items(&bind(&one(NAME, PLACE, r#""AAI=""#)).unwrap());
    assert_ne!(replaced[0].identifier, sent[0].identifier);
    assert_eq!(items(&bind(&null).unwrap()), replaced);
}

#[test]
fn another_client_with_the_same_name_changes_nothing() {
    let cache = MediaCache::new(1 << 20);
    let [mine, theirs] = [1, 2].map(|key| Scope::of_key([key; 32]));
    let sent = items(&bind_with(&cache, mine, &one(NAME, PLACE, PAYLOAD)).unwrap());
    let other = items(&bind_with(&cache, theirs, &one(NAME, PLACE, r#""AAI=""#)).unwrap());
    assert_ne!(other[0].identifier, sent[0].identifier);
    assert_eq!(items(&bind_with(&cache, mine, &one(NAME, PLACE, "null")).unwrap()), sent);
}

/// Two images of the same name at 0 and 4, with these payloads.
fn two(payloads: [&str; 2]) -> String {
    let [first, second] = payloads;
    format!(
        r#"{{"mm_hashes":{{"image":["a","a"]}},"kwargs_data":{{"image":[{first},{second}]}},
        "mm_placeholders":{{"image":[{{"offset":0,"length":2}},{{"offset":4,"length":2}}]}}}}"#
    )
}

#[test]
fn an_image_that_stands_twice_may_be_sent_once() {
    for bytes_max in [0, 1 << 20] {
        let cache = MediaCache::new(bytes_max);
        for payloads in [["null", PAYLOAD], [PAYLOAD, "null"]] {
            let both = items(&bind_with(&cache, Scope::SHARED, &two(payloads)).unwrap());
            assert_eq!(both[0].identifier, both[1].identifier);
        }
    }
}

#[test]
fn what_comes_with_a_request_is_looked_for_before_what_came_earlier() {
    let cache = MediaCache::new(1 << 20);
    let bind = |features: &str| items(&bind_with(&cache, Scope::SHARED, features).unwrap());
    let earlier = bind(&one(NAME, PLACE, PAYLOAD));
    let now = bind(&two(["null", r#""AAI=""#]));
    assert_eq!(now[0].identifier, now[1].identifier);
    assert_ne!(now[0].identifier, earlier[0].identifier);
    let apart = bind(&two([PAYLOAD, r#""AAI=""#]));
    assert_eq!([&apart[0].identifier, &apart[1].identifier], [&earlier[0].identifier, &now[0].identifier]);
}

#[test]
fn every_payload_of_a_request_is_remembered() {
    let cache = MediaCache::new(1 << 20);
    let pair = |payloads| two(payloads).replace(r#""a","a""#, r#""a","b""#);
    let bind = |features: &str| items(&bind_with(&cache, Scope::SHARED, features).unwrap());
    let sent = bind(&pair([PAYLOAD, r#""AAI=""#]));
    assert_eq!(bind(&pair(["null", "null"])), sent);
}

#[test]
fn the_same_name_in_another_modality_is_another_payload() {
    let features = r#"{"mm_hashes":{"image":["a"],"audio":["a"]},"kwargs_data":{"image":["AAE="],"audio":[null]},
        "mm_placeholders":{"image":[{"offset":0,"length":2}],"audio":[{"offset":4,"length":2}]}}"#;
    let refused = bind_with(&MediaCache::new(1 << 20), Scope::SHARED, features).err().unwrap();
    assert_eq!(refused.param.as_deref(), Some("features.kwargs_data.audio[0]"));
}

#[test]
fn payloads_seen_before_count_towards_the_bytes_of_a_request() {
    let cache = MediaCache::new(64 << 20);
    let bind = |features: &str| bind_with(&cache, Scope::SHARED, features);
    let half = format!("\"{}\"", "AAAA".repeat((9 << 20) / 3));
    bind(&one(NAME, PLACE, &half)).unwrap();
    let twice = r#"{"mm_hashes":{"image":["a","a"]},
        "mm_placeholders":{"image":[{"offset":0,"length":2},{"offset":4,"length":2}]}}"#;
    let said = "Invalid features.kwargs_data: must hold at most 16777216 bytes in all";
    assert_eq!(outcome(&bind(twice)), said);
}

#[test]
fn a_body_that_is_refused_leaves_nothing_behind() {
    let cache = MediaCache::new(1 << 20);
    let catalog = catalog();
    let context = BindContext { media: &cache, ..context(&catalog) };
    let features = one(NAME, PLACE, PAYLOAD);
    for [member, blamed] in rows(
        r#"
        "model":"nope" | UnknownModel model
        "priority":0.5 | Invalid priority
        "content_parts":[{"type":"image_url","url":"data:,"}] | Invalid content_parts: cannot go together with features
        "#,
    ) {
        let said = outcome(&VllmGenerate.bind(body(&format!("{features},{member}")).as_bytes(), &context));
        assert!(said.starts_with(blamed), "{said}");
        assert_eq!(cache.stats().entries, 0, "{member}");
    }
}

#[test]
fn features_that_are_refused_replace_nothing() {
    let cache = MediaCache::new(64 << 20);
    let bind = |features: &str| bind_with(&cache, Scope::SHARED, features);
    let null = one(NAME, PLACE, "null");
    let sent = items(&bind(&one(NAME, PLACE, PAYLOAD)).unwrap());
    let stats = cache.stats();
    let other_metadata =
        one(NAME, PLACE, r#""AAI=""#).replacen('{', r#"{"mm_metadata":{"image":["AAE="]},"#, 1);
    let later_unknown = r#"{"mm_hashes":{"image":["a","b"]},"kwargs_data":{"image":["AAI=",null]},
        "mm_placeholders":{"image":[{"offset":0,"length":2},{"offset":4,"length":2}]}}"#;
    let large = format!("\"{}\"", "AAAA".repeat((9 << 20) / 3));
    for (features, blamed) in [
        (other_metadata.as_str(), "features.mm_metadata.image[0]"),
        (later_unknown, "features.kwargs_data.image[1]"),
        (&two([&large, "null"]), "features.kwargs_data"),
    ] {
        assert_eq!(bind(features).err().unwrap().param.as_deref(), Some(blamed));
        assert_eq!(items(&bind(&null).unwrap()), sent, "{blamed}");
        assert_eq!(cache.stats(), stats, "{blamed}");
    }
}

#[test]
fn a_dry_run_finds_payloads_and_leaves_nothing_behind() {
    let room_for_one = MediaCache::new(600);
    let catalog = catalog();
    let dry = |features: &str| {
        let context = BindContext { media: &room_for_one, remember: false, ..context(&catalog) };
        VllmGenerate.bind(body(features).as_bytes(), &context)
    };
    let bind = |features: &str| bind_with(&room_for_one, Scope::SHARED, features);
    let null = one(NAME, PLACE, "null");
    let other = items(&dry(&one(NAME, PLACE, r#""AAI=""#)).unwrap());
    assert_eq!(room_for_one.stats().entries, 0);
    let sent = items(&bind(&one(NAME, PLACE, PAYLOAD)).unwrap());
    assert_eq!(items(&dry(&null).unwrap()), sent);
    assert_eq!(items(&dry(&one(NAME, PLACE, r#""AAI=""#)).unwrap()), other);
    assert!(dry(&one(r#""b""#, PLACE, PAYLOAD)).is_ok());
    assert_eq!(items(&bind(&null).unwrap()), sent);
}

#[test]
fn the_model_and_the_context_come_before_what_is_remembered() {
    let catalog = catalog();
    let null = one(NAME, PLACE, "null");
    let body = body(&format!(r#"{null},"model":"nope""#));
    let said = "UnknownModel model: the model `nope` does not exist";
    assert_eq!(outcome(&VllmGenerate.bind(body.as_bytes(), &context(&catalog))), said);
}
