//! KV events of the mock, whose bytes are those of the recordings, through the adapter: what it tells of each rank is
//! what the mock knows to be cached.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tito_engine::{Connection, Connector, KvFeed};
use tito_mock::{
    EventEncoding, Fault, FaultSpec, FrameFault, KvEventsConfig, KvStyle, MockConfig, ReplayLayout,
};
use tito_testkit::{RunningMock, connector};
use tito_types::{KvEvent, KvNews};
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use vllm_proto::generate_request::Prompt;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{GenerateRequest, StoppingCriteria, TokenIds};

/// Longest wait for a state that must come.
const PATIENCE: Duration = Duration::from_secs(30);
const RANKS: u32 = 2;

/// Two ranks of 19 usable blocks each, so that blocks are removed all the time.
fn config(kv_style: KvStyle) -> MockConfig {
    let events = r#"{"enable_kv_cache_events":true,"endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}"#;
    MockConfig {
        data_parallel_size: RANKS,
        num_gpu_blocks: 20,
        max_model_len: 256,
        kv_events: Some(KvEventsConfig::parse(events).unwrap()),
        kv_style,
        ..MockConfig::new()
    }
}

/// What a listener believes of one rank.
#[derive(Debug, Default, PartialEq)]
struct View {
    complete: bool,
    blocks: BTreeSet<u64>,
}

struct Bench {
    mock: RunningMock,
    client: InferenceClient<Channel>,
    feed: KvFeed,
    views: BTreeMap<u32, View>,
    /// Every reason for a rank to be incomplete.
    partial: Vec<String>,
}

impl Bench {
    async fn start(config: MockConfig) -> Self {
        let mock = RunningMock::start(config).await.unwrap();
        let client = InferenceClient::new(
            Endpoint::from_shared(format!("http://{}", mock.grpc())).unwrap().connect().await.unwrap(),
        );
        let connector = connector(mock.grpc(), 1).unwrap();
        let Connection { kv: feed, .. } = connector.connect().await.unwrap();
        let views = (0..RANKS).map(|rank| (rank, View::default())).collect();
        let mut bench = Self { mock, client, feed, views, partial: Vec::new() };
        bench.until("both ranks to be whole", |bench| bench.views.values().all(|view| view.complete)).await;
        bench
    }

    /// One of a few prompts, so that some are found and others come back after they were removed.
    async fn generate(&mut self, number: u32) {
        let ids = (0..40 + number * 31 % 150).map(|index| (index * 7 + number * 13 % 5) % 1000).collect();
        let mut asked = tonic::Request::new(GenerateRequest {
            prompt: Some(Prompt::TokenIds(TokenIds { ids })),
            stopping: Some(StoppingCriteria {
                max_new_tokens: 1 + number % 40,
                ..StoppingCriteria::default()
            }),
            ..GenerateRequest::default()
        });
        asked.metadata_mut().insert("x-data-parallel-rank", (number % RANKS).to_string().parse().unwrap());
        self.client.generate(asked).await.unwrap();
    }

    /// Listens until a state has come.
    async fn until(&mut self, what: &str, ready: impl Fn(&Self) -> bool) {
        let listening = async {
            while !ready(self) {
                let update = std::future::poll_fn(|context| self.feed.as_mut().poll_next(context)).await;
                let update = update.expect("a feed does not end");
                self.apply(update.rank, update.news);
            }
        };
        let waited = timeout(PATIENCE, listening).await;
        assert!(waited.is_ok(), "never saw {what}: {:?}, partial for {:?}", self.views, self.partial);
    }

    fn apply(&mut self, rank: u32, news: KvNews) {
        let view = self.views.get_mut(&rank).expect("an owned rank");
        match news {
            KvNews::Events(events) => {
                for event in events {
                    match event {
                        KvEvent::Stored(stored) => {
                            view.blocks.extend(stored.hashes.iter().map(|hash| hash.0));
                        }
                        // Each tier's blocks are among those that the engine has.
                        KvEvent::Copied { .. } => {}
                        KvEvent::Removed { hashes, .. } => {
                            for hash in &hashes {
                                view.blocks.remove(&hash.0);
                            }
                        }
                        KvEvent::Cleared => view.blocks.clear(),
                    }
                }
            }
            KvNews::Partial(reason) => {
                *view = View::default();
                self.partial.push(reason);
            }
            KvNews::Unproven => view.complete = false,
            KvNews::Complete => view.complete = true,
            KvNews::Counters(_) | KvNews::MediaInexact(_) | KvNews::NotCompared(_) => {}
        }
    }

    /// Listens until both ranks are as the mock knows them to be.
    async fn agree(&mut self, what: &str) {
        let truth = |bench: &Self| {
            bench.views.iter().all(|(&rank, view)| {
                view.complete && view.blocks == bench.mock.handle().kv_state(rank).unwrap().resident
            })
        };
        self.until(what, truth).await;
    }

    fn fault(&self, rank: u32, frame: FrameFault, count: u32) {
        let at_seq = self.mock.handle().kv_last_seq(rank).map_or(0, |last| last + 2);
        let fault = Fault::KvFrame { rank: Some(rank), at_seq, frame };
        self.mock.handle().add_fault(FaultSpec { count: Some(count), ..FaultSpec::new(fault) }).unwrap();
    }
}

#[tokio::test]
async fn in_every_encoding_and_layout_the_adapter_believes_what_is_cached() {
    for (encoding, replay) in
        [(EventEncoding::Map, ReplayLayout::Topic), (EventEncoding::Array, ReplayLayout::NoTopic)]
    {
        for whole_digests in [false, true] {
            let style = KvStyle { encoding, replay, whole_digests, ..KvStyle::default() };
            let mut bench = Bench::start(config(style)).await;
            for number in 0..60 {
                bench.generate(number).await;
            }
            bench.agree("agreement").await;
            assert_eq!(bench.partial, [] as [&str; 0]);
        }
    }
}

#[tokio::test]
async fn what_is_lost_repeated_or_swapped_is_made_good_by_replays() {
    let mut bench = Bench::start(config(KvStyle::default())).await;
    for (round, frame) in
        [FrameFault::Drop, FrameFault::Duplicate, FrameFault::Reorder].into_iter().enumerate()
    {
        bench.fault(0, frame, 1 + round as u32);
        bench.fault(1, frame, 3);
        for number in 0..60 {
            bench.generate(number).await;
        }
        bench.agree(&format!("agreement after {frame:?}")).await;
    }
    assert_eq!(bench.partial, [] as [&str; 0], "history was proven from the first batch on");
}

#[tokio::test]
async fn a_broken_batch_costs_its_rank_until_the_next_reset() {
    for frame in [FrameFault::Corrupt, FrameFault::TruncateSeq] {
        let mut bench = Bench::start(config(KvStyle::default())).await;
        bench.fault(1, frame, 1);
        for number in 0..60 {
            bench.generate(number).await;
        }
        let truth = bench.mock.handle().kv_state(0).unwrap().resident;
        bench
            .until("the healthy rank", |bench| {
                bench.views[&0] == View { complete: true, blocks: truth.clone() }
            })
            .await;
        let mut control =
            vllm_proto::control_client::ControlClient::connect(format!("http://{}", bench.mock.grpc()))
                .await
                .unwrap();
        control.pause_generation(vllm_proto::PauseGenerationRequest::default()).await.unwrap();
        control.resume_generation(vllm_proto::ResumeGenerationRequest {}).await.unwrap();
        for number in 0..20 {
            bench.generate(number).await;
        }
        bench.agree(&format!("agreement after {frame:?} and a reset")).await;
    }
}
