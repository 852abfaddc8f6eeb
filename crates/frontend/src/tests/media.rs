use std::sync::Arc;

use axum::body::Body;
use http::Request;
use tito_formats::VllmGenerate;

use crate::FrontendConfig;
use crate::app::Endpoint;
use crate::testing::engines::quick;
use crate::testing::{Setup, keys, post, setup_with, with};

/// A frontend whose first route is vLLM's generate.
async fn generate(configure: impl FnOnce(&mut FrontendConfig)) -> Setup {
    let mut setup = setup_with(quick(), configure).await.unwrap();
    let app = Arc::get_mut(&mut setup.frontend.app).expect("it does not run yet");
    let Endpoint { path, route, ref metrics, .. } = *app.endpoints[0];
    let metrics = Arc::clone(metrics);
    app.endpoints[0] = Arc::new(Endpoint { path, route, format: Box::new(VllmGenerate), metrics });
    setup
}

/// One image, its payload sent or left out.
fn image(payload: &str, key: &str) -> Request<Body> {
    image_to("/inference/v1/generate", payload, key)
}

fn image_to(path: &str, payload: &str, key: &str) -> Request<Body> {
    let body = format!(
        r#"{{"token_ids":[1,2,3],"sampling_params":{{}},"features":{{"mm_hashes":{{"image":["cat"]}},
        "mm_placeholders":{{"image":[{{"offset":1,"length":2}}]}},"kwargs_data":{{"image":[{payload}]}}}}}}"#
    );
    with(post(path, body), "x-api-key", key)
}

const DATA: &str = "\"AAE=\"";

fn not_cached() -> (u16, String) {
    (400, "media_not_cached".to_owned())
}

#[tokio::test]
async fn a_payload_is_remembered_for_the_key_it_came_with() {
    let setup = generate(|config| config.keys = keys(&["alpha", "beta"])).await;
    assert_eq!(setup.ask(image(DATA, "alpha")).await.status(), 200);
    assert_eq!(setup.ask(image("null", "alpha")).await.status(), 200);
    assert_eq!(setup.refusal(image("null", "beta")).await, not_cached());
    assert_eq!(setup.ask(image(DATA, "beta")).await.status(), 200);
    assert_eq!(setup.ask(image("null", "beta")).await.status(), 200);
}

#[tokio::test]
async fn without_keys_payloads_are_shared_and_without_room_none_is_remembered() {
    let setup = generate(|_| {}).await;
    assert_eq!(setup.ask(image(DATA, "any")).await.status(), 200);
    assert_eq!(setup.ask(image("null", "other")).await.status(), 200);
    let forgetful = generate(|config| config.limits.media_cache_bytes = 0).await;
    assert_eq!(forgetful.ask(image(DATA, "any")).await.status(), 200);
    assert_eq!(forgetful.refusal(image("null", "any")).await, not_cached());
}

#[tokio::test]
async fn a_dry_run_understands_payloads_and_remembers_none() {
    let setup = generate(|_| {}).await;
    let dry = |payload: &str| image_to("/debug/route", payload, "any");
    assert_eq!(setup.ask(dry(DATA)).await.status(), 200);
    assert_eq!(setup.refusal(image("null", "any")).await, not_cached());
    assert_eq!(setup.refusal(dry("null")).await, not_cached());
    assert_eq!(setup.ask(image(DATA, "any")).await.status(), 200);
    assert_eq!(setup.ask(dry("null")).await.status(), 200);
}
