//! One HTTP request to the demo's own server.

use anyhow::{Context as _, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Posts JSON and returns the whole body of a 200.
pub(crate) async fn post(url: &str, path: &str, id: &str, body: &Value) -> anyhow::Result<String> {
    let authority = url.trim_start_matches("http://");
    let stream = TcpStream::connect(authority).await.with_context(|| format!("connect to {authority}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::post(path)
        .header("host", authority)
        .header("content-type", "application/json")
        .header("x-request-id", id)
        .body(Full::new(Bytes::from(body.to_string())))?;
    let exchange = async {
        let reply = sender.send_request(request).await?;
        let status = reply.status();
        let body = reply.into_body().collect().await?.to_bytes();
        let text = String::from_utf8(body.to_vec()).context("the reply is not UTF-8")?;
        ensure!(status.is_success(), "{path} answered {status}: {text}");
        Ok(text)
    };
    tokio::select! {
        reply = exchange => reply,
        ended = connection => {
            ended?;
            anyhow::bail!("{authority} closed the connection before it answered")
        }
    }
}
