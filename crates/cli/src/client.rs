//! One HTTP request of a command, over a connection of its own.

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Largest reply that a command reads, in bytes.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// Sends a request to `HOST:PORT` and returns what came back, whatever its status. Waits as long as it takes.
pub(crate) async fn send(
    authority: &str,
    mut request: Request<Full<Bytes>>,
) -> anyhow::Result<(StatusCode, String)> {
    let stream = TcpStream::connect(authority).await.with_context(|| format!("connect to {authority}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let host = authority.parse().with_context(|| format!("{authority} is no HOST:PORT"))?;
    request.headers_mut().insert(hyper::header::HOST, host);
    let exchange = async {
        let reply = sender.send_request(request).await;
        let reply = reply.with_context(|| format!("{authority} closed the connection before it answered"))?;
        let status = reply.status();
        let body = Limited::new(reply.into_body(), REPLY_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("read the reply: {error}"))?.to_bytes();
        Ok((status, String::from_utf8(body.to_vec()).context("the reply is not UTF-8")?))
    };
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        reply = &mut exchange => reply,
        // A server may close after its answer, of which some is not read yet; where it closed before, this fails.
        _ended = connection => exchange.await,
    }
}
