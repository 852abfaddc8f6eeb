use std::convert::Infallible;
use std::fs;
use std::task::Poll;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request};
use tempfile::NamedTempFile;
use tito_test_support::wait::wait_until;

use crate::KeyConfig;
use crate::testing::engines::quick;
use crate::testing::{check_metrics, get, keys, metrics_text, post, refusal_of, setup_with, with};

fn with_key(request: Request<Body>, key: &str) -> Request<Body> {
    with(request, "authorization", &format!("Bearer {key}"))
}

#[tokio::test]
async fn once_a_key_is_set_every_route_but_health_needs_one() {
    let setup = setup_with(quick(), |config| config.keys = keys(&["alpha", "beta"])).await.unwrap();
    let delete = || Request::builder().method(Method::DELETE).uri("/v1/models").body(Body::empty()).unwrap();
    let options = || Request::builder().method(Method::OPTIONS).uri("/metrics").body(Body::empty()).unwrap();
    let posts = ["/inference/v1/generate", "/v1/completions", "/debug/route"].map(|path| (path, 200, true));
    let gets = "/v1/models /v1/models/toy /metrics /openapi.json /version /workers".split(' ');
    let gets = gets.map(|path| (path, 200, false)).chain([("/nowhere", 404, false)]);
    for (path, status, posted) in posts.into_iter().chain(gets) {
        let request = || if posted { post(path, "{}") } else { get(path) };
        let refused = setup.ask(request()).await;
        assert_eq!(refused.headers()["www-authenticate"], "Bearer realm=\"tito\"");
        assert_eq!(refusal_of(refused).await, (401, "invalid_api_key".to_owned()), "{path}");
        assert_eq!(setup.ask(with_key(request(), "gamma")).await.status(), 401);
        assert_eq!(setup.ask(with_key(request(), "beta")).await.status(), status, "{path}");
    }
    for request in [delete(), options()] {
        assert_eq!(setup.ask(request).await.status(), 401);
    }
    for path in ["/live", "/healthz", "/liveness", "/ready", "/readyz", "/readiness", "/health"] {
        assert_eq!(setup.ask(get(path)).await.status(), 200, "{path}");
    }
    check_metrics(
        &setup.registry,
        &[
            r#"tito_frontend_auth_failures_total{reason="missing"} 12"#,
            r#"tito_frontend_auth_failures_total{reason="wrong"} 10"#,
            r#"tito_frontend_requests_total{route="generate",status="4xx",code="invalid_api_key"} 2"#,
        ],
    );
    let text = metrics_text(&setup.registry);
    assert!(!text.contains("alpha") && !text.contains("gamma"));
}

#[tokio::test]
async fn metrics_are_open_by_choice() {
    let keys = KeyConfig { metrics_open: true, ..keys(&["alpha"]) };
    let setup = setup_with(quick(), |config| config.keys = keys).await.unwrap();
    assert_eq!(setup.ask(get("/metrics")).await.status(), 200);
    assert_eq!(setup.ask(get("/version")).await.status(), 401);
}

#[tokio::test]
async fn without_a_key_the_body_is_not_read() {
    let setup = setup_with(quick(), |config| config.keys = keys(&["alpha"])).await.unwrap();
    let unread = Body::from_stream(stream::poll_fn(|_| -> Poll<Option<Result<Bytes, Infallible>>> {
        panic!("the body was read")
    }));
    assert_eq!(setup.ask(post("/inference/v1/generate", unread)).await.status(), 401);
}

#[tokio::test]
async fn the_key_file_is_read_again_when_told_and_a_bad_one_changes_nothing() {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), "old\n").unwrap();
    let keys = KeyConfig { file: Some(file.path().to_owned()), ..keys(&["fixed"]) };
    let setup = setup_with(quick(), |config| config.keys = keys).await.unwrap();
    let check = async |key: &str, status: u16| {
        assert_eq!(setup.ask(with_key(get("/version"), key)).await.status(), status, "{key}");
    };
    let reloads = async |result: &str, count: u32| {
        setup.reload.fire();
        let line = format!(r#"frontend_key_reloads_total{{result="{result}"}} {count}"#);
        wait_until(&line, || metrics_text(&setup.registry).contains(&line)).await;
    };
    check("old", 200).await;
    check("new", 401).await;
    fs::write(file.path(), "new\n").unwrap();
    check("old", 200).await;
    reloads("ok", 1).await;
    check("old", 401).await;
    check("new", 200).await;
    fs::write(file.path(), "not a key\n").unwrap();
    reloads("failed", 1).await;
    check("new", 200).await;
    fs::remove_file(file.path()).unwrap();
    reloads("failed", 2).await;
    check("new", 200).await;
    check("fixed", 200).await;
}
