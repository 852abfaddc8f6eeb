//! One HTTP request to the demo's own server.

use anyhow::ensure;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use serde_json::Value;

use crate::client;

/// Posts JSON and returns the whole body of a 200.
pub(crate) async fn post(url: &str, path: &str, id: &str, body: &Value) -> anyhow::Result<String> {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .header("x-request-id", id)
        .body(Full::new(Bytes::from(body.to_string())))?;
    let (status, text) = client::send(url.trim_start_matches("http://"), request).await?;
    ensure!(status.is_success(), "{path} answered {status}: {text}");
    Ok(text)
}
