//! What each rank of an engine has to do, whoever sent it. Nothing in vLLM 0.32's gRPC services tells; its HTTP metrics
//! do, where the operator says where they are. Nothing is asked unless the feed is polled.

use std::io;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{pending, unfold};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tito_engine::{LOAD_EVERY, LoadFeed};
use tito_runtime::Chain;
use tito_types::{EngineLoad, WorkerId};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use crate::MetricsAddress;

pub(crate) mod text;

/// Largest answer that is read, in bytes: vLLM 0.32 says some 20 KiB per rank.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What every rank has to do, each time it was asked; nothing of any rank when there was no answer. It never ends.
pub(crate) fn feed(
    worker: &WorkerId,
    metrics: Option<&MetricsAddress>,
    ranks: Range<u32>,
    answer_within: Duration,
) -> LoadFeed {
    let Some(address) = metrics.cloned() else { return Box::pin(pending()) };
    let authority = address.authority.clone();
    let open = move || TcpStream::connect(authority.clone());
    feed_over(
        open,
        Look { worker: worker.clone(), address, ranks, answer_within, next: None, failing: false },
    )
}

/// The same over connections that `open` makes.
fn feed_over<S, F>(open: impl FnMut() -> F + Send + 'static, look: Look) -> LoadFeed
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    Box::pin(unfold((look, open), |(mut look, mut open)| async move {
        let loads = look.ask(&mut open).await;
        Some((loads, (look, open)))
    }))
}

struct Look {
    worker: WorkerId,
    address: MetricsAddress,
    ranks: Range<u32>,
    answer_within: Duration,
    /// When to ask again; absent before the first time.
    next: Option<Instant>,
    failing: bool,
}

impl Look {
    /// Waits until it is time, and asks.
    async fn ask<S, F>(&mut self, open: &mut impl FnMut() -> F) -> Vec<EngineLoad>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = io::Result<S>>,
    {
        if let Some(next) = self.next {
            sleep_until(next).await;
        }
        self.next = Some(Instant::now() + LOAD_EVERY);
        let asked = async {
            let stream = open().await.map_err(|error| error.to_string())?;
            let answer = get(stream, &self.address).await?;
            let loads = text::loads(&answer, self.ranks.clone());
            if loads.is_empty() { Err(self.nothing_told()) } else { Ok(loads) }
        };
        let answered = timeout(self.answer_within, asked).await;
        let problem = match answered {
            Ok(Ok(loads)) => {
                self.failing = false;
                return loads;
            }
            Ok(Err(problem)) => problem,
            Err(_) => format!("no answer within {:?}", self.answer_within),
        };
        if !self.failing {
            self.failing = true;
            let MetricsAddress { authority, path } = &self.address;
            let metrics = format!("http://{authority}{path}");
            warn!(worker = %self.worker, metrics, problem, "the engine's load is not known: the ledger counts alone");
        }
        Vec::new()
    }

    fn nothing_told(&self) -> String {
        let Range { start, end } = self.ranks;
        format!("it tells no load of ranks {start} to {}", end.saturating_sub(1))
    }
}

/// One question on a connection of its own.
async fn get<S>(stream: S, address: &MetricsAddress) -> Result<Bytes, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let request = Request::get(&address.path)
        .header(HOST, &address.authority)
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| Chain(&error).to_string())?;
    let exchange = async {
        let reply = sender.send_request(request).await.map_err(|error| Chain(&error).to_string())?;
        match reply.status() {
            StatusCode::OK => {}
            status => return Err(format!("it answers {status}")),
        }
        let body = Limited::new(reply.into_body(), ANSWER_BYTES_MAX).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| Chain(&*error).to_string())
    };
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        // The engine closes after its answer, of which some may not have been read; if it closed before, this fails.
        _ended = connection => exchange.await,
    }
}

#[cfg(test)]
mod tests;
