//! Payloads that were left out, and what a request leaves behind for later ones.

use super::{NAME, PAYLOAD, PLACE, bind_with, body, items, one};
use crate::testing::{catalog, context, outcome};
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

#[test]
fn an_image_that_stands_twice_may_be_sent_once() {
    let cache = MediaCache::new(1 << 20);
    let features = r#"{"mm_hashes":{"image":["a","a"]},"kwargs_data":{"image":[null,"AAE="]},
        "mm_placeholders":{"image":[{"offset":0,"length":2},{"offset":4,"length":2}]}}"#;
    let both = items(&bind_with(&cache, Scope::SHARED, features).unwrap());
    assert_eq!(both[0].identifier, both[1].identifier);
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
    for (member, expected) in [
        (r#""model":"nope""#, "UnknownModel model: the model `nope` does not exist"),
        (
            r#""priority":0.5"#,
            "Invalid priority: must be a whole number from -2147483648 to 2147483647, got 0.5",
        ),
        (
            r#""content_parts":[{"type":"image_url","url":"data:,"}]"#,
            "Invalid content_parts: cannot go together with features",
        ),
    ] {
        let body = body(&format!("{features},{member}"));
        assert_eq!(outcome(&VllmGenerate.bind(body.as_bytes(), &context)), expected);
        assert_eq!(cache.stats().entries, 0, "{member}");
    }
}

#[test]
fn the_model_and_the_context_come_before_what_is_remembered() {
    let catalog = catalog();
    let null = one(NAME, PLACE, "null");
    let body = body(&format!(r#"{null},"model":"nope""#));
    let said = "UnknownModel model: the model `nope` does not exist";
    assert_eq!(outcome(&VllmGenerate.bind(body.as_bytes(), &context(&catalog))), said);
}
