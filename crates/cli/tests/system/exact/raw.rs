//! Raw media (`content_parts`), which the engine expands: what it is told that they are, and where their prompts go.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Engines, IMAGE_PAD, OFFSET, PLACEHOLDERS, ask, cached, wait_held, with_image};
use crate::harness::{GENERATE, tensors};

/// Two images, for a mock that looks at signatures only.
const ONE: &str = "data:image/png;base64,iVBORw0KGgox";
const OTHER: &str = "data:image/png;base64,iVBORw0KGgoy";

/// The prompt of [`with_image`] before an engine expands its image.
fn with_part(seed: u32, url: &str, uuid: Option<&str>) -> Value {
    let mut body = with_image(seed, "", None);
    body.as_object_mut().unwrap().remove("features");
    let tokens = body["token_ids"].as_array_mut().unwrap();
    tokens.drain(OFFSET..OFFSET + PLACEHOLDERS - 1);
    body["content_parts"] = json!([{"type": "image_url", "url": url, "uuid": uuid}]);
    body
}

#[tokio::test]
async fn a_clients_name_for_an_image_gives_it_nothing_of_another() {
    let engines = Engines::simulated(&[&["--multimodal"]]).await;
    let serve = engines.served(&[]).await;
    let payload = STANDARD.encode(tensors("media-features"));
    let found = async |body: &Value| cached(&ask(&serve, body).await.0);

    assert_eq!(found(&with_part(1, ONE, Some("cat"))).await, 0);
    assert_eq!(found(&with_part(1, OTHER, Some("cat"))).await, 0, "one name for two images");
    assert_eq!(found(&with_part(1, ONE, Some("dog"))).await, 0, "another name");
    assert_eq!(found(&with_part(1, ONE, Some("cat"))).await, 96, "the same again");

    // The engine's word for the tensors is known to their owner, so a client may have it.
    let (reply, route) = ask(&serve, &with_image(2, &payload, None)).await;
    assert_eq!(cached(&reply), 0);
    let journal = engines.mock(&route.worker).journal().await;
    let message = journal.last().unwrap().message();
    let told = message["media"][0]["features"]["identifier"].as_str();
    let told = told.expect("the engine was told what the tensors are");
    for uuid in [Some(told), None] {
        assert_eq!(found(&with_part(2, ONE, uuid)).await, 0, "named {uuid:?}");
    }
    // Nor is a place taken that the tensors would be looked for at.
    assert_eq!(found(&with_part(3, ONE, Some(told))).await, 0);
    assert_eq!(found(&with_image(3, &payload, None)).await, 0);
    assert_eq!(found(&with_image(2, &payload, None)).await, 96, "the tensors find their own");
}

/// A system prompt of two blocks and a bit, and what a user asks of an image.
fn question(url: &str) -> Value {
    let mut tokens: Vec<u32> = (1..=110).collect();
    tokens[70] = IMAGE_PAD;
    let parts = json!([{"type": "image_url", "url": url}]);
    json!({"token_ids": tokens, "sampling_params": {"max_tokens": 1, "temperature": 0.0}, "content_parts": parts})
}

#[tokio::test]
async fn a_warm_system_prompt_attracts_what_is_asked_of_an_image() {
    let engines = Engines::simulated(&[&["--multimodal"], &["--multimodal"]]).await;
    let serve = engines.served(&[]).await;
    // Where a prompt that is held nowhere does not go.
    let warm = engines.mocks.iter().map(|mock| mock.grpc.to_string()).max().unwrap();
    let text = json!({"token_ids": (1..=70).collect::<Vec<u32>>(), "sampling_params": {"max_tokens": 1}});
    let reply = serve.post(GENERATE, &text).header("X-Tito-Worker", &warm).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    wait_held(&serve, &question(ONE), &warm, 64).await;
    for (url, found) in [(ONE, 64), (OTHER, 64), (ONE, 96)] {
        let (reply, told) = ask(&serve, &question(url)).await;
        assert_eq!((told.worker.as_str(), told.overlap), (warm.as_str(), 64), "{url}: the text is known");
        assert_eq!(cached(&reply), found, "{url}: and the engine knows the image");
    }
    // That of the text.
    serve.wait_metric("tito_router_cache_reports_total", &["result=\"equal\""], 1.0).await;
    serve.wait_metric("tito_router_cache_reports_total", &[], 1.0).await;
}
