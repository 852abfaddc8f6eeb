//! Media on the generate route: the rows of `features` and `content_parts`, with tensors as vLLM 0.32 makes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use serde_json::{Value, json};
use vllm_proto::media_item::Source;

use super::{Case, engine, messages, set};
use crate::harness::{GENERATE, Serve, tensors};

/// The first of two recorded images.
const A: &str = "media-features";
/// The other one.
const B: &str = "media-features-b";

/// What the engine is told that A is, as an image.
const A_IMAGE: &str = "tito-mm:276c6a413bc329941adc5123f213aafb4721eeaeab5bc265bcfe44ecde5f8811";
/// The same bytes as a sound are something else.
const A_AUDIO: &str = "tito-mm:17c04f1cbdb476390ed2cc123dee87ad5de759bcec4d2defb6f9cecea635fbe3";
const B_IMAGE: &str = "tito-mm:483a6440e25e00997184398c474747b9831f7177843bdeac6fea8f1b9d4a227a";
const B_VIDEO: &str = "tito-mm:653137adc6d763cf9f5db4abd12ef3cd7d2356fef082e4e238f0371121a621cb";

/// What the engine is told that `PNG`, and what is at `ADDRESS`, are when a client names them "cat".
const PNG_CAT: &str = "tito-raw:9487970379a5a2fecbdc0127868b01b7d76ea063f7789036a19878de17ea2610";
const ADDRESS_CAT: &str = "tito-raw:cbd243af90f437c8fd246a8295f11e8e3f406f4f9a30cb1ee82e09e47e4f4427";

const IMAGE: u32 = 1;
const VIDEO: u32 = 2;
const AUDIO: u32 = 3;

/// Where the mock looks for raw images and videos in a prompt.
const IMAGE_PAD: u32 = 1006;
const VIDEO_PAD: u32 = 1007;

const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";
const ADDRESS: &str = "http://media.test/a.png";

/// The tensors of a recorded image in a body, and in the journal.
fn payload(recording: &str) -> Value {
    json!(STANDARD.encode(tensors(recording)))
}

/// The second and last field of the tensors, alone.
fn metadata(recording: &str) -> Value {
    let (tensors, name) = (tensors(recording), b"\xaeimage_grid_thw");
    let at = tensors.windows(name.len()).position(|window| window == name).unwrap();
    json!(STANDARD.encode([&[0x81], &tensors[at..]].concat()))
}

/// Images at these offsets (tokens), one token each.
fn images(names: &[&str], payloads: &[Value], offsets: &[u32]) -> Value {
    let places: Vec<Value> = offsets.iter().map(|offset| json!({ "offset": offset, "length": 1 })).collect();
    json!({
        "mm_hashes": { "image": names },
        "mm_placeholders": { "image": places },
        "kwargs_data": { "image": payloads },
    })
}

/// A at the second token.
fn image() -> Value {
    images(&["a"], &[payload(A)], &[1])
}

/// What the engine gets of one item of `features`; a default is not on the wire.
fn item(modality: u32, recording: &str, identifier: &str, place: &Value) -> Value {
    let mut features = json!({ "kwargs": payload(recording), "identifier": identifier });
    for (name, value) in place.as_object().unwrap() {
        features[name] = value.clone();
    }
    json!({ "modality": modality, "features": features })
}

/// A where it takes `place`.
fn placed(place: &Value) -> Vec<(&'static str, Value)> {
    media(json!([item(IMAGE, A, A_IMAGE, place)]))
}

fn media(items: Value) -> Vec<(&'static str, Value)> {
    vec![("/media", items)]
}

pub(super) fn cases() -> Vec<Case> {
    whole().into_iter().chain(maps()).chain(places()).chain(parts()).collect()
}

/// `features` all at once.
fn whole() -> Vec<Case> {
    let one = |offset| json!([{ "offset": offset, "length": 1 }]);
    let mixed = json!({
        "mm_hashes": { "image": ["x"], "video": ["x"], "audio": ["x"] },
        "mm_placeholders": { "image": one(2), "video": one(0), "audio": one(1) },
        "kwargs_data": { "image": [payload(A)], "video": [payload(B)], "audio": [payload(A)] },
    });
    let in_order = json!([
        item(VIDEO, B, B_VIDEO, &json!({ "length": 1 })),
        item(AUDIO, A, A_AUDIO, &json!({ "offset": 1, "length": 1 })),
        item(IMAGE, A, A_IMAGE, &json!({ "offset": 2, "length": 1 })),
    ]);
    vec![
        Case::new("features", image(), placed(&json!({ "offset": 1, "length": 1 }))),
        Case::new("features", mixed, media(in_order)),
        Case::new("features", json!({}), vec![]),
    ]
}

fn maps() -> Vec<Case> {
    let case = |field: &str, value, changes| {
        Case::new(&format!("features.{field}"), value, changes).with("features", image())
    };
    let at = |offset| json!({ "offset": offset, "length": 1 });
    let thrice = images(&["a", "b", "a"], &[payload(A), payload(B), Value::Null], &[0, 1, 2]);
    let renamed = json!([
        item(IMAGE, A, A_IMAGE, &json!({ "length": 1 })),
        item(IMAGE, B, B_IMAGE, &at(1)),
        item(IMAGE, B, B_IMAGE, &at(2)),
    ]);
    vec![
        // A client's name says which payload is meant where there is none, and never reaches the engine.
        case("mm_hashes", json!({ "image": ["a", "b", "b"] }), media(renamed)).with("features", thrice),
        case("mm_hashes", json!({ "image": ["another name"] }), vec![]),
        case(
            "kwargs_data",
            json!({ "image": [payload(B)] }),
            media(json!([item(IMAGE, B, B_IMAGE, &at(1))])),
        ),
        case("kwargs_data", json!({ "image": [null] }), vec![]),
        case("kwargs_data", Value::Null, vec![]),
        case("mm_metadata", json!({ "image": [metadata(A)] }), vec![]),
        case("mm_metadata", json!({ "image": [null] }), vec![]),
    ]
}

fn places() -> Vec<Case> {
    let case = |field: &str, value, place: Value| {
        Case::new(&format!("features.mm_placeholders{field}"), value, placed(&place))
            .with("features", image())
    };
    let mask = json!([false, true]);
    let masked = json!({ "offset": 1, "length": 2, "is_embed": mask });
    vec![
        case("", json!({ "image": [{ "offset": 0, "length": 3 }] }), json!({ "length": 3 })),
        case(".*[].offset", json!(2), json!({ "offset": 2, "length": 1 })),
        case(".*[].offset", json!(0), json!({ "length": 1 })),
        case(".*[].length", json!(2), json!({ "offset": 1, "length": 2 })),
        case(".*[].is_embed", mask, masked).with("features.mm_placeholders.*[].length", json!(2)),
    ]
}

fn parts() -> Vec<Case> {
    let case = |field: &str, value, changes| {
        Case::new(&format!("content_parts{field}"), value, changes)
            .with("token_ids", json!([11, IMAGE_PAD, VIDEO_PAD]))
    };
    let one = |kind: &str| json!([{ "type": kind, "url": ADDRESS }]);
    let below =
        |field: &str, value, changes| case(field, value, changes).with("content_parts", one("image_url"));
    let both = json!([
        { "type": "video_url", "url": ADDRESS },
        { "type": "image_url", "url": PNG, "uuid": "cat" },
    ]);
    let on_wire = json!([
        { "modality": VIDEO, "url": ADDRESS },
        { "modality": IMAGE, "data_uri": PNG, "uuid": PNG_CAT },
    ]);
    let only = |item| media(json!([item]));
    vec![
        case("", both, media(on_wire)),
        case("", json!([]), vec![]),
        below("[].type", json!("video_url"), only(json!({ "modality": VIDEO, "url": ADDRESS }))),
        below("[].url", json!(PNG), only(json!({ "modality": IMAGE, "data_uri": PNG }))),
        below(
            "[].url",
            json!("https://media.test/b"),
            only(json!({ "modality": IMAGE, "url": "https://media.test/b" })),
        ),
        below(
            "[].uuid",
            json!("cat"),
            only(json!({ "modality": IMAGE, "url": ADDRESS, "uuid": ADDRESS_CAT })),
        ),
    ]
}

#[tokio::test]
async fn tensors_reach_the_engine_byte_for_byte() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let body =
        json!({ "token_ids": [11, 12, 13], "sampling_params": { "max_tokens": 1 }, "features": image() });
    messages(&serve, &engine, GENERATE, &body).await;
    let wire = STANDARD.decode(engine.journal().await[0].0["wire_b64"].as_str().unwrap()).unwrap();
    let request = vllm_proto::GenerateRequest::decode(wire.as_slice()).unwrap();
    let [item] = request.media.as_slice() else { panic!("{} items", request.media.len()) };
    let Some(Source::Features(features)) = &item.source else { panic!("no tensors") };
    assert!(features.kwargs.as_deref() == Some(&tensors(A)), "the tensors were changed");
    // With it, the engine would look the item up where other clients' items are.
    assert_eq!(features.mm_hash, None);
}

#[tokio::test]
async fn a_reply_says_where_the_media_are_and_counts_what_the_engine_expanded() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let plain = json!({ "token_ids": [11, IMAGE_PAD, 13], "sampling_params": { "max_tokens": 1 } });
    for stream in [false, true] {
        let mut tensors = plain.clone();
        set(&mut tensors, "stream", &json!(stream));
        let mut raw = tensors.clone();
        set(&mut tensors, "features", &image());
        set(&mut tensors, "return_token_ids", &json!(true));
        let chunks = serve.post(GENERATE, &tensors).send().await.chunks();
        let told: Vec<&Value> =
            chunks.iter().map(|chunk| &chunk["mm_placeholders"]).filter(|told| !told.is_null()).collect();
        assert_eq!(told, [&json!({ "image": [{ "offset": 1, "length": 1 }] })], "{chunks:?}");
        set(&mut raw, "content_parts[]", &json!({ "type": "image_url", "url": PNG }));
        if stream {
            set(&mut raw, "stream_options.include_usage", &json!(true));
        }
        let chunks = serve.post(GENERATE, &raw).send().await.chunks();
        assert_eq!(
            chunks.last().unwrap()["usage"]["prompt_tokens"],
            6,
            "one placeholder became four: {chunks:?}"
        );
    }
}
