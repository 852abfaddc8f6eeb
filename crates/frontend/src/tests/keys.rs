use std::fs;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request};
use http_body::Frame;
use tempfile::NamedTempFile;
use tito_test_support::wait::wait_until;

use crate::testing::engines::quick;
use crate::testing::{code_of, get, metrics_text, post, setup_with};
use crate::{KeyConfig, Secret};

fn keys(keys: &[&str]) -> KeyConfig {
    let keys = keys.iter().map(|key| Secret::new((*key).to_owned())).collect();
    KeyConfig { keys, ..KeyConfig::default() }
}

type Make = fn() -> Request<Body>;

fn with_key(mut request: Request<Body>, key: &str) -> Request<Body> {
    request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}

#[tokio::test]
async fn once_a_key_is_set_every_route_but_health_needs_one() {
    let setup = setup_with(quick(), |config| config.keys = keys(&["alpha", "beta"])).await.unwrap();
    let delete = || Request::builder().method(Method::DELETE).uri("/v1/models").body(Body::empty()).unwrap();
    let options = || Request::builder().method(Method::OPTIONS).uri("/metrics").body(Body::empty()).unwrap();
    let guarded: [(Make, u16); 10] = [
        (|| post("/inference/v1/generate", "{}"), 200),
        (|| post("/v1/completions", "{}"), 200),
        (|| get("/v1/models"), 200),
        (|| get("/v1/models/toy"), 200),
        (|| get("/metrics"), 200),
        (|| get("/openapi.json"), 200),
        (|| get("/version"), 200),
        (|| get("/workers"), 200),
        (|| post("/debug/route", "{}"), 200),
        (|| get("/nowhere"), 404),
    ];
    for (request, status) in guarded {
        let refused = setup.ask(request()).await;
        assert_eq!(refused.status(), 401, "{}", request().uri());
        assert_eq!(refused.headers()["www-authenticate"], "Bearer realm=\"tito\"");
        assert_eq!(code_of(refused).await, "invalid_api_key");
        assert_eq!(setup.ask(with_key(request(), "gamma")).await.status(), 401);
        assert_eq!(setup.ask(with_key(request(), "beta")).await.status(), status, "{}", request().uri());
    }
    for request in [delete(), options()] {
        assert_eq!(setup.ask(request).await.status(), 401);
    }
    for path in ["/live", "/healthz", "/liveness", "/ready", "/readyz", "/readiness", "/health"] {
        assert_eq!(setup.ask(get(path)).await.status(), 200, "{path}");
    }
    let text = metrics_text(&setup.registry);
    for line in [
        r#"frontend_auth_failures_total{reason="missing"} 12"#,
        r#"frontend_auth_failures_total{reason="wrong"} 10"#,
        r#"frontend_requests_total{route="generate",status="4xx",code="invalid_api_key"} 2"#,
    ] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    assert!(!text.contains("alpha") && !text.contains("gamma"));
}

#[tokio::test]
async fn metrics_are_open_by_choice() {
    let setup = setup_with(quick(), |config| {
        config.keys = KeyConfig { metrics_open: true, ..keys(&["alpha"]) };
    });
    let setup = setup.await.unwrap();
    assert_eq!(setup.ask(get("/metrics")).await.status(), 200);
    assert_eq!(setup.ask(get("/version")).await.status(), 401);
}

/// A body that must not be read.
struct Untouched;

impl http_body::Body for Untouched {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        panic!("the body was read")
    }
}

#[tokio::test]
async fn without_a_key_the_body_is_not_read() {
    let setup = setup_with(quick(), |config| config.keys = keys(&["alpha"])).await.unwrap();
    let response = setup.ask(post("/inference/v1/generate", Body::new(Untouched))).await;
    assert_eq!(response.status(), 401);
}

#[tokio::test]
async fn the_key_file_is_read_again_when_told_and_a_bad_one_changes_nothing() {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), "old\n").unwrap();
    let path = file.path().to_owned();
    let setup = setup_with(quick(), |config| {
        config.keys = KeyConfig { file: Some(path), ..keys(&["fixed"]) };
    });
    let setup = setup.await.unwrap();
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
