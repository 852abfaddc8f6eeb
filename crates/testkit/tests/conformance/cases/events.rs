//! KV events: what is published of the prefix cache, and when.

use std::time::Duration;

use tito_engine::{Connector, KvFeed};
use tito_test_support::wait::within;
use tito_testkit::connector;
use tito_types::{EngineHash, KvEvent, KvNews};
use tokio::time::{Instant, timeout};

use super::cache::clear;
use crate::ask::{greedy, prompt};
use crate::needs::say;
use crate::target::Target;

/// Requests whose lag is measured.
const MEASURED: u32 = 40;

/// The events of an engine's only rank, as the adapter reads them.
struct Events {
    feed: KvFeed,
}

impl Events {
    /// Listens to what is published from now on.
    async fn of(target: &Target) -> Self {
        let address = target.grpc.parse().expect("TITO_CONFORMANCE_GRPC is an IP address and a port");
        let connection = connector(address, 1).unwrap().connect().await.unwrap();
        let mut events = Self { feed: connection.kv };
        let known = async { while !matches!(events.news().await, KvNews::Complete) {} };
        within("the history of the events", known).await;
        events
    }

    async fn news(&mut self) -> KvNews {
        let update = std::future::poll_fn(|context| self.feed.as_mut().poll_next(context)).await;
        update.expect("a feed does not end").news
    }

    /// The next batch.
    async fn batch(&mut self) -> Vec<KvEvent> {
        let batch = async {
            loop {
                match self.news().await {
                    KvNews::Events(events) => return events,
                    KvNews::Partial(reason) => panic!("events were lost: {reason}"),
                    _ => {}
                }
            }
        };
        within("a batch of events", batch).await
    }

    /// Everything up to the store of these tokens at the start of a sequence.
    async fn until_stored(&mut self, tokens: &[u32]) -> Vec<KvEvent> {
        let stored = |event: &KvEvent| match event {
            KvEvent::Stored(stored) => stored.parent.is_none() && stored.tokens == tokens,
            KvEvent::Copied { .. } | KvEvent::Removed { .. } | KvEvent::Cleared => false,
        };
        let mut all = Vec::new();
        while !all.iter().any(stored) {
            all.extend(self.batch().await);
        }
        all
    }
}

/// How often a name was stored and removed.
fn copies(events: &[KvEvent], name: EngineHash) -> (usize, usize) {
    let (mut stored, mut removed) = (0, 0);
    let count = |hashes: &[EngineHash]| hashes.iter().filter(|hash| **hash == name).count();
    for event in events {
        match event {
            KvEvent::Stored(blocks) => stored += count(&blocks.hashes),
            KvEvent::Removed { hashes, .. } => removed += count(hashes),
            KvEvent::Copied { .. } | KvEvent::Cleared => {}
        }
    }
    (stored, removed)
}

pub(crate) async fn each_copy_of_a_block_is_stored_and_removed_by_itself(target: &Target) {
    let (block, pool) = (target.facts.block, target.facts.blocks - 1);
    let mut events = Events::of(target).await;
    for evicted in 0..=2 {
        clear(target).await;
        let ids = prompt(2 * block, 8);
        for _ in 0..2 {
            target.unary(greedy(&ids, 1)).await.unwrap();
        }
        // The first block and two copies of the second are cached: this takes what is free, and some of them.
        let filler = prompt((pool - 3 + evicted) * block - 10, 1);
        target.unary(greedy(&filler, 1)).await.unwrap();
        // It needs one block, and the filler has given back one that holds nothing.
        let last = prompt(block, 5);
        target.unary(greedy(&last, 1)).await.unwrap();
        let seen = events.until_stored(&last).await;
        let stored = seen.iter().find_map(|event| match event {
            KvEvent::Stored(stored) if stored.tokens == ids => Some(stored.hashes[1]),
            _ => None,
        });
        let name = stored.expect("the first prompt is stored as one run");
        assert_eq!(copies(&seen, name), (2, evicted as usize), "{seen:?}");
    }
}

pub(crate) async fn how_far_events_lag_behind_their_tokens_is_measured(target: &Target) {
    clear(target).await;
    let block = target.facts.block;
    let mut events = Events::of(target).await;
    let mut lags = Vec::new();
    for variant in 0..MEASURED {
        let ids: Vec<u32> = std::iter::once(33 + variant).chain(prompt(block, variant)).collect();
        let mut reading = target.open_stream(greedy(&ids, 1)).await.unwrap();
        let token = async {
            assert!(reading.next().await.unwrap().is_some(), "a token");
            Instant::now()
        };
        let event = async {
            events.until_stored(&ids[..block as usize]).await;
            Instant::now()
        };
        let (token, event) = tokio::join!(token, event);
        let micros = |later: Instant, earlier: Instant| later.duration_since(earlier).as_micros() as i64;
        lags.push(if event >= token { micros(event, token) } else { -micros(token, event) });
        reading.rest().await.unwrap();
    }
    lags.sort_unstable();
    let late = lags.iter().filter(|lag| **lag > 0).count();
    let at = |percent: usize| lags[(lags.len() - 1) * percent / 100];
    say(&format!(
        "{:?}: {late} of {} events came after the first token of their step; lag p5 {} µs, p50 {} µs, p95 {} µs",
        target.kind,
        lags.len(),
        at(5),
        at(50),
        at(95)
    ));
    let more = timeout(Duration::ZERO, events.batch()).await;
    assert!(more.is_err(), "one batch for each request and no more: {more:?}");
}
