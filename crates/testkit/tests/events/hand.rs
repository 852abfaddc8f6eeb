//! A publisher whose every frame is in our hands, and one rank that follows it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tito_engine::KvFeed;
use tito_engine_vllm::test_util::{kv_feed, pack};
use tito_fleet::{Blocks, FleetMetrics, Target};
use tito_kv_index::{IndexConfig, TierOverlap};
use tito_types::{
    Capabilities, EngineInfo, Identity, KvCounters, KvSupport, ModelInfo, Parallelism, WorkerId,
};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

use crate::ask::Ask;

/// Tokens per block, as the engine says.
pub(crate) const BLOCK_TOKENS: u32 = 4;
/// Longest wait for a state that must come.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the feed waits for a replay: all are answered here.
const SILENCE: Duration = Duration::from_secs(30);

/// Batches that replays bring, by number.
type Buffer = Arc<Mutex<Vec<Bytes>>>;

pub(crate) struct Hand {
    what: String,
    socket: PubSocket,
    buffer: Buffer,
    feed: KvFeed,
    pub(crate) blocks: Blocks,
    pub(crate) target: Arc<Target>,
    _answering: JoinSet<()>,
}

impl Hand {
    /// A publisher that has said nothing yet, and a rank that knows it.
    pub(crate) async fn start(what: &str) -> Self {
        let (mut socket, mut router) = (PubSocket::new(), RouterSocket::new());
        let (events, replay) = (bind(&mut socket).await, bind(&mut router).await);
        let buffer = Buffer::default();
        let mut answering = JoinSet::new();
        answering.spawn(answer(router, Arc::clone(&buffer)));
        let blocks = Blocks::new(IndexConfig { bytes_max: 16 << 20 }, 7);
        let metrics = FleetMetrics::register(&mut Registry::default());
        let target = Target::of_engine(&blocks, &WorkerId::new("worker"), &info(), &metrics).remove(0);
        let feed = kv_feed(events, Some(replay), SILENCE);
        let what = what.to_owned();
        let mut hand = Self { what, socket, buffer, feed, blocks, target, _answering: answering };
        hand.until("a whole history", |hand| hand.target.complete()).await;
        hand
    }

    /// Publishes a batch with these events.
    pub(crate) async fn publish(&mut self, events: &Value) {
        self.publish_bytes(pack(&json!([1.5, events, 0]))).await;
    }

    /// Publishes these bytes as the next batch.
    pub(crate) async fn publish_bytes(&mut self, payload: Vec<u8>) {
        let payload = Bytes::from(payload);
        let seq = {
            let mut buffer = self.buffer.lock().unwrap();
            buffer.push(payload.clone());
            buffer.len() as u64 - 1
        };
        self.raw(&[b"kv", &seq.to_be_bytes(), &payload]).await;
    }

    pub(crate) async fn raw(&mut self, frames: &[&[u8]]) {
        self.socket.send(message(frames)).await.unwrap();
    }

    /// Takes news until all that was published is applied.
    pub(crate) async fn applied(&mut self) -> KvCounters {
        let published = self.buffer.lock().unwrap().len() as u64;
        self.until("every batch", |hand| hand.counters().batches == published).await;
        self.counters()
    }

    /// Leading blocks that the rank is known to hold, by tier.
    pub(crate) fn held(&self, ask: &Ask) -> TierOverlap {
        let chain = ask.chain(&self.blocks, &self.target);
        self.target.try_overlap(&self.blocks, &chain).expect("nobody else books its news")
    }

    pub(crate) fn counters(&self) -> KvCounters {
        self.target.report().counters
    }

    pub(crate) async fn until(&mut self, state: &str, ready: impl Fn(&Self) -> bool) {
        let listening = async {
            while !ready(self) {
                let update = self.feed.next().await.expect("a feed does not end");
                self.target.apply(&self.blocks, update.news);
            }
        };
        let waited = timeout(PATIENCE, listening).await;
        assert!(waited.is_ok(), "{}: never saw {state}: {:?}", self.what, self.target.report());
    }
}

fn info() -> EngineInfo {
    EngineInfo {
        engine_version: "0".to_owned(),
        instance_id: "instance".to_owned(),
        kv_events: KvSupport::On { replay: true },
        pixels: None,
        identity: Identity {
            model: ModelInfo {
                source: "model".to_owned(),
                names: vec!["model".to_owned()],
                lora: true,
                multimodal: true,
            },
            parallelism: Parallelism { data: 1, data_local: 1, ..Parallelism::default() },
            capabilities: Capabilities::default(),
            max_model_len: 64,
            kv_block_size: BLOCK_TOKENS,
            total_kv_blocks: 100,
            max_running_requests: 8,
            max_batched_tokens: 64,
        },
    }
}

async fn bind(socket: &mut impl Socket) -> SocketAddr {
    let bound = socket.bind("tcp://127.0.0.1:0").await.unwrap();
    let zeromq::Endpoint::Tcp(_, port) = bound else { panic!("asked for TCP") };
    SocketAddr::from(([127, 0, 0, 1], port))
}

async fn answer(mut router: RouterSocket, buffer: Buffer) {
    while let Ok(question) = router.recv().await {
        let frames = question.into_vec();
        let [id, _, from] = &frames[..] else { continue };
        let from = u64::from_be_bytes(from[..].try_into().unwrap());
        let batches = buffer.lock().unwrap().clone();
        let batches = (0..).zip(batches).filter(|(seq, _)| *seq >= from);
        for (seq, payload) in batches.chain([(u64::MAX, Bytes::new())]) {
            router.send(message(&[id, b"", b"kv", &seq.to_be_bytes(), &payload])).await.unwrap();
        }
    }
}

fn message(frames: &[&[u8]]) -> ZmqMessage {
    let frames: Vec<Bytes> = frames.iter().map(|frame| Bytes::copy_from_slice(frame)).collect();
    ZmqMessage::try_from(frames).unwrap()
}
