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
use tito_engine::{LOAD_EVERY, LoadFeed, LoadNews};
use tito_runtime::Chain;
use tito_types::{EngineLoad, WorkerId};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use crate::MetricsAddress;

pub(crate) mod text;

/// An answer that takes longer tells of too long ago: what is told holds for a few [`LOAD_EVERY`] only.
const ANSWER_WITHIN_MAX: Duration = Duration::from_secs(2);
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
    async fn ask<S, F>(&mut self, open: &mut impl FnMut() -> F) -> LoadNews
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
            Ok(text::loads(&answer, self.ranks.clone()))
        };
        let limit = self.answer_within.min(ANSWER_WITHIN_MAX);
        let (loads, problem) = match timeout(limit, asked).await {
            Ok(Ok(loads)) => {
                let problem = self.left_out(&loads);
                (loads, problem)
            }
            Ok(Err(problem)) => (Vec::new(), Some(problem)),
            Err(_) => (Vec::new(), Some(format!("no answer within {limit:?}"))),
        };
        self.log(problem.as_deref());
        // Of ranks that are left out among others, it is not this that tells why.
        LoadNews { problem: problem.filter(|_| loads.is_empty()), loads }
    }

    /// Which ranks it says nothing of.
    fn left_out(&self, loads: &[EngineLoad]) -> Option<String> {
        let told = |rank: &u32| loads.iter().any(|load| load.rank == *rank);
        let left_out = self.ranks.clone().find(|rank| !told(rank))?;
        Some(format!("it tells nothing of rank {left_out}"))
    }

    /// One line when it begins to fail, and one when it no longer does.
    fn log(&mut self, problem: Option<&str>) {
        let MetricsAddress { authority, path } = &self.address;
        let (worker, metrics) = (&self.worker, format!("http://{authority}{path}"));
        match problem {
            Some(problem) if !self.failing => {
                warn!(%worker, metrics, problem, "the engine's load is not known: the ledger counts alone");
            }
            None if self.failing => info!(%worker, metrics, "the engine's load is known again"),
            Some(_) | None => return,
        }
        self.failing = !self.failing;
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
