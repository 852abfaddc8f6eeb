//! Raw media (`content_parts`), which the engine expands: what it is told that they are, and where their prompts go.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Engines, IMAGE_PAD, OFFSET, PLACEHOLDERS, ask, cached, wait_held, with_image};
use crate::harness::{Asked, Call, GENERATE, Reply, Serve, tensors, wait_for};

/// Two images, for a mock that looks at signatures only.
const ONE: &str = "data:image/png;base64,iVBORw0KGgox";
const OTHER: &str = "data:image/png;base64,iVBORw0KGgoy";

/// The prompt of [`with_image`] before an engine expands its image.
fn with_part(seed: u32, url: &str, uuid: Option<&str>) -> Value {
    let mut body = with_image(seed, "", None);
    body.as_object_mut().unwrap().remove("features");
    let tokens = body["token_ids"].as_array_mut().unwrap();
    tokens.drain(OFFSET as usize..OFFSET as usize + PLACEHOLDERS - 1);
    assert_eq!(tokens[OFFSET as usize], IMAGE_PAD);
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
    json!({
        "token_ids": tokens,
        "sampling_params": {"max_tokens": 1, "temperature": 0.0},
        "content_parts": [{"type": "image_url", "url": url}],
    })
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
    let metrics = serve.get("/metrics").send().await;
    let compared = |line: &str| line.starts_with("tito_router_cache_reports_total{");
    let compared: Vec<&str> = metrics.text().lines().filter(|line| compared(line)).collect();
    assert_eq!(compared, ["tito_router_cache_reports_total{result=\"equal\"} 1"], "that of the text");
}

#[tokio::test]
async fn equal_raw_prompts_go_together_and_another_image_goes_elsewhere() {
    let engines = Engines::simulated(&[&["--multimodal"], &["--multimodal"]]).await;
    let serve = engines.served(&[]).await;
    for mock in &engines.mocks {
        mock.pause().await;
    }
    let group: Vec<Asked> = (0..3).map(|_| Asked::new(call(&serve, "group", ONE))).collect();
    let together = homes(&engines, "group", 3).await;
    assert!(together.contains(&3), "the group is apart: {together:?}");
    let other = Asked::new(call(&serve, "other", OTHER));
    let away = homes(&engines, "other", 1).await;
    let apart = together.iter().zip(&away).all(|(group, other)| (*group == 0) == (*other == 1));
    assert!(apart, "the group {together:?}, the other {away:?}");
    for mock in &engines.mocks {
        mock.resume().await;
    }
    let mut rules = Vec::new();
    for asked in group {
        let reply = asked.reply().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        rules.push(rule(&reply).to_owned());
    }
    rules.sort_unstable();
    assert_eq!(rules, ["policy", "siblings", "siblings"]);
    assert_eq!(rule(&other.reply().await), "policy");
}

fn call(serve: &Serve, id: &str, url: &str) -> Call {
    serve.post(GENERATE, &question(url)).header("X-Request-Id", id).header("X-Tito-Explain", "1")
}

/// How many requests of an id each engine has, once all have arrived.
async fn homes(engines: &Engines, id: &str, count: usize) -> Vec<usize> {
    wait_for(&format!("{count} requests {id} at the engines"), async || {
        let mut homes = Vec::new();
        for mock in &engines.mocks {
            homes.push(mock.entries(id).await.len());
        }
        (homes.iter().sum::<usize>() == count).then_some(homes)
    })
    .await
}

/// What decided.
fn rule(reply: &Reply) -> &str {
    let route = reply.headers["x-tito-route"].to_str().unwrap();
    route.split("rule=").nth(1).unwrap()
}
