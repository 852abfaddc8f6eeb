//! Media on the generate route, with tensors as vLLM 0.32 makes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use serde_json::{Value, json};
use vllm_proto::media_item::Source;

use super::{body, engine, messages};
use crate::harness::{GENERATE, Serve, tensors};

/// A recorded image.
const RECORDED: &str = "media-features";
/// What the engine is told that it is.
const IDENTIFIER: &str = "tito-mm:276c6a413bc329941adc5123f213aafb4721eeaeab5bc265bcfe44ecde5f8811";
/// Where the mock looks for a raw image in a prompt.
const IMAGE_PAD: u32 = 1006;
const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";

/// The recorded image at the second token.
fn image() -> Value {
    json!({
        "mm_hashes": { "image": ["a"] },
        "mm_placeholders": { "image": [{ "offset": 1, "length": 1 }] },
        "kwargs_data": { "image": [STANDARD.encode(tensors(RECORDED))] },
    })
}

#[tokio::test]
async fn tensors_reach_the_engine_byte_for_byte() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    for stream in [false, true] {
        messages(&serve, &engine, GENERATE, &body(GENERATE, stream, &json!({ "features": image() }))).await;
        let wire = STANDARD.decode(engine.journal().await[0].0["wire_b64"].as_str().unwrap()).unwrap();
        let request = vllm_proto::GenerateRequest::decode(wire.as_slice()).unwrap();
        let [item] = request.media.as_slice() else { panic!("{} items", request.media.len()) };
        let Some(Source::Features(features)) = &item.source else { panic!("no tensors") };
        assert!(features.kwargs.as_deref() == Some(&tensors(RECORDED)), "the tensors were changed");
        let place = (item.modality, features.offset, features.length, features.identifier.as_str());
        assert_eq!(place, (1, 1, 1, IDENTIFIER));
        // With it, the engine would look the item up where other clients' items are.
        assert_eq!(features.mm_hash, None);
    }
}

#[tokio::test]
async fn raw_media_reach_the_engine_as_they_were_named() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let parts = json!([
        { "type": "video_url", "url": "http://media.test/a.mp4" },
        { "type": "image_url", "url": PNG, "uuid": "cat" },
    ]);
    let asked = body(GENERATE, false, &json!({ "token_ids": [11, IMAGE_PAD, 1007], "content_parts": parts }));
    let found = messages(&serve, &engine, GENERATE, &asked).await;
    let named = "tito-raw:9487970379a5a2fecbdc0127868b01b7d76ea063f7789036a19878de17ea2610";
    let expected = json!([
        { "modality": 2, "url": "http://media.test/a.mp4" },
        { "modality": 1, "data_uri": PNG, "uuid": named },
    ]);
    assert_eq!(found[0]["media"], expected);
}

#[tokio::test]
async fn a_reply_says_where_the_media_are_and_counts_what_the_engine_expanded() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    for stream in [false, true] {
        let tensors = json!({ "features": image(), "return_token_ids": true });
        let chunks = serve.post(GENERATE, &body(GENERATE, stream, &tensors)).send().await.chunks();
        let told: Vec<&Value> =
            chunks.iter().map(|chunk| &chunk["mm_placeholders"]).filter(|told| !told.is_null()).collect();
        assert_eq!(told, [&json!({ "image": [{ "offset": 1, "length": 1 }] })], "{chunks:?}");
        let mut raw = json!({
            "token_ids": [11, IMAGE_PAD, 13],
            "content_parts": [{ "type": "image_url", "url": PNG }],
        });
        if stream {
            raw["stream_options"] = json!({ "include_usage": true });
        }
        let chunks = serve.post(GENERATE, &body(GENERATE, stream, &raw)).send().await.chunks();
        let counted = &chunks.last().unwrap()["usage"]["prompt_tokens"];
        assert_eq!(*counted, json!(6), "one placeholder became four: {chunks:?}");
    }
}
