//! KV events: where an engine publishes what its block tables hold, how to read it, and the feed that follows it.
//!
//! `sources` decides from the engine's own words whether and where to subscribe; `batch` reads the bytes; `zmtp` is the
//! subset of ZeroMQ's protocol that a subscriber needs; `rank` joins them with [`tito_kv_index::Cursor`], which owns
//! every decision about sequence, replay and restart. Nothing runs unless the feed is polled, and dropping it closes
//! every socket.

use futures_util::StreamExt;
use futures_util::stream::{pending, select_all, unfold};
use tito_engine::KvFeed;
use tito_types::{KvUpdate, WorkerId};

pub(crate) mod batch;
pub(crate) mod endpoint;
mod extras;
mod msgpack;
mod rank;
mod replay;
pub(crate) mod sources;
mod subscribe;
mod timing;
pub(crate) mod zmtp;

use rank::Rank;
use sources::Source;
pub(crate) use timing::Timing;

/// The news of all ranks in one stream. Each rank's are in order; it never ends.
pub(crate) fn feed(worker: &WorkerId, sources: Vec<Source>, timing: &Timing) -> KvFeed {
    if sources.is_empty() {
        return Box::pin(pending());
    }
    let ranks = sources.into_iter().map(|source| {
        let rank = source.rank;
        let state = Rank::new(worker.clone(), source, timing.clone());
        let news = unfold(state, |mut state| async move { Some((state.next().await, state)) });
        news.map(move |news| KvUpdate { rank, news }).boxed()
    });
    Box::pin(select_all(ranks))
}
