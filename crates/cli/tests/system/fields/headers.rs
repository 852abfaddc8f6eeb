//! Headers that say whose request it is.

use serde_json::json;

use super::{ROUTES, body};
use crate::harness::{Call, served};

#[tokio::test]
async fn headers_name_the_request_its_session_and_its_rank() {
    let (engine, serve) = served(&["--data-parallel-size", "2"], &[]).await;
    let named = |call: Call| {
        call.header("x-request-id", "named").header("x-session-id", "s1").header("x-data-parallel-rank", "1")
    };
    for path in ROUTES {
        engine.forget().await;
        let body = body(path, false, &json!({ "request_id": "other" }));
        let reply = named(serve.post(path, &body)).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.header("x-request-id"), Some("named"));
        let entries = engine.entries("named").await;
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].0["rank"], json!(1));
        assert_eq!(entries[0].message()["session_id"], json!("s1"));
        let reply = serve.post(path, &body).send().await;
        assert_eq!(reply.header("x-request-id"), Some("other"), "the body's, without a header");
        assert_eq!(engine.entries("other").await.len(), 1);
    }
}
