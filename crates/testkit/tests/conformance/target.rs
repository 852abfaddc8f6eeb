//! What a case talks to: the engine that the environment names, or a mock of its own.

use std::time::Duration;

use tito_mock::MockConfig;
use tito_test_support::wait::within;
use tito_testkit::RunningMock;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use vllm_proto::control_client::ControlClient;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{
    GetKvEventSourcesRequest, GetModelInfoRequest, GetServerInfoRequest, PauseGenerationRequest,
    ResumeGenerationRequest,
};

use crate::needs::{self, Need};

/// Longest time a case may take. The slowest fills a context on a small machine.
const CASE_LIMIT: Duration = Duration::from_secs(120);
/// Largest reply accepted, in bytes.
const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// An engine that others use at the same time would show their pauses: cases take turns on it.
static TURN: Mutex<()> = Mutex::const_new(());

/// A dense engine that was started with the priority policy, which it does not say of itself.
const DENSE_PRIORITY: &str = "dense-priority";

/// Which engine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The look-alike.
    Mock,
    /// The real frontend over a scripted engine.
    Light,
    /// The real frontend and engine with a small dense model.
    Dense,
}

/// Where the ids of a kind's vocabulary lie; nothing on the wire says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vocabulary {
    /// Ids from here up are refused in prompts.
    pub(crate) rows: u32,
    /// Ids from here up are refused in `allowed_token_ids`.
    pub(crate) tokens: u32,
    /// The primary end of sequence.
    pub(crate) eos: u32,
    /// The secondary end of sequence.
    pub(crate) secondary_eos: u32,
}

impl Kind {
    fn named(name: &str) -> Self {
        match name {
            "mock" => Self::Mock,
            "light" => Self::Light,
            "dense" | DENSE_PRIORITY => Self::Dense,
            other => {
                panic!("TITO_CONFORMANCE_KIND is {other}: it must be mock, light, dense or {DENSE_PRIORITY}")
            }
        }
    }

    /// The mock looks like the dense engine.
    pub(crate) fn vocabulary(self) -> Vocabulary {
        match self {
            Self::Mock | Self::Dense => {
                Vocabulary { rows: 1024, tokens: 1010, eos: 1002, secondary_eos: 1000 }
            }
            Self::Light => Vocabulary { rows: 260, tokens: 260, eos: 257, secondary_eos: 256 },
        }
    }
}

/// Something an engine is started with or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    WeightTransfer,
    SleepMode,
    Lora,
    KvEvents,
    Priority,
}

/// What the engine says about itself.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Served names, the primary one first.
    pub(crate) names: Vec<String>,
    /// Context length in tokens.
    pub(crate) context: u32,
    /// Tokens per KV block.
    pub(crate) block: u32,
    /// KV blocks, one of which holds nothing.
    pub(crate) blocks: u32,
    /// Requests that run at a time.
    pub(crate) running_max: u64,
    /// What it was started with.
    pub(crate) features: Vec<Feature>,
}

/// An engine, for the length of one case.
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) facts: Facts,
    /// `host:port` of the gRPC services.
    pub(crate) grpc: String,
    /// `host:port` of the HTTP server.
    pub(crate) http: Option<String>,
    /// Whether the case may end it.
    pub(crate) disposable: bool,
    channel: Channel,
    _mock: Option<RunningMock>,
    _turn: Option<MutexGuard<'static, ()>>,
}

/// Opens a target, and runs the case on it or says why it is skipped.
pub(crate) async fn run(case: &str, needs: &[Need], body: impl AsyncFnOnce(&Target)) {
    let target = Target::open(needs).await;
    if let Some(reason) = needs::why_not(needs, &target) {
        needs::skipped(case, reason);
        return;
    }
    let done = timeout(CASE_LIMIT, body(&target)).await;
    done.unwrap_or_else(|_| panic!("{case}: not within {CASE_LIMIT:?}"));
}

impl Facts {
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

impl Target {
    /// The named engine, as if nobody had used it, or a new mock that has what the case needs.
    pub(crate) async fn open(needs: &[Need]) -> Self {
        let named = variable("TITO_CONFORMANCE_KIND").unwrap_or_else(|| "mock".to_owned());
        let kind = Kind::named(&named);
        let Some(grpc) = variable("TITO_CONFORMANCE_GRPC") else {
            assert_eq!(kind, Kind::Mock, "TITO_CONFORMANCE_GRPC must say where the {kind:?} engine is");
            return Self::own_mock(needs).await;
        };
        let turn = TURN.lock().await;
        let http = variable("TITO_CONFORMANCE_HTTP");
        let mut target = Self::connect(kind, grpc, http, None, Some(turn)).await;
        if named == DENSE_PRIORITY {
            target.facts.features.push(Feature::Priority);
        }
        if variable("TITO_CONFORMANCE_ONE_AT_A_TIME").as_deref() == Some("1") {
            assert_eq!(target.facts.running_max, 1, "the engine was to be limited to one request at a time");
        }
        // A case that failed while the engine was paused must not take the others with it.
        target.resume().await;
        target
    }

    async fn own_mock(needs: &[Need]) -> Self {
        let mut config = MockConfig::new();
        config.served_model_names = vec!["mock".to_owned(), "mock-alias".to_owned()];
        for need in needs {
            need.configure(&mut config);
        }
        let mock = RunningMock::start(config).await.expect("a mock starts on free ports");
        let (grpc, http) = (mock.grpc().to_string(), mock.http().to_string());
        let mut target = Self::connect(Kind::Mock, grpc, Some(http), Some(mock), None).await;
        if needs.contains(&Need::Priority) {
            target.facts.features.push(Feature::Priority);
        }
        target
    }

    async fn connect(
        kind: Kind,
        grpc: String,
        http: Option<String>,
        mock: Option<RunningMock>,
        turn: Option<MutexGuard<'static, ()>>,
    ) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{grpc}")).expect("an address makes an endpoint");
        let channel = endpoint.connect().await.unwrap_or_else(|error| panic!("connect to {grpc}: {error:?}"));
        let facts = discover(ControlClient::new(channel.clone())).await;
        let disposable = mock.is_some() || variable("TITO_CONFORMANCE_DISPOSABLE").as_deref() == Some("1");
        Self { kind, facts, grpc, http, disposable, channel, _mock: mock, _turn: turn }
    }

    pub(crate) fn inference(&self) -> InferenceClient<Channel> {
        InferenceClient::new(self.channel.clone()).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    pub(crate) fn control(&self) -> ControlClient<Channel> {
        ControlClient::new(self.channel.clone())
    }

    /// Pauses the engine, or says why it cannot be.
    pub(crate) async fn pause(
        &self,
        mode: impl Into<i32>,
        clear_cache: impl Into<Option<bool>>,
    ) -> Result<(), Status> {
        let request = PauseGenerationRequest { mode: mode.into(), clear_cache: clear_cache.into() };
        within("pause", self.control().pause_generation(request)).await.map(|_| ())
    }

    pub(crate) async fn resume(&self) {
        self.control().resume_generation(ResumeGenerationRequest {}).await.expect("it can be resumed");
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(crate) fn vocabulary(&self) -> Vocabulary {
        self.kind.vocabulary()
    }
}

async fn discover(mut control: ControlClient<Channel>) -> Facts {
    let server = control.get_server_info(GetServerInfoRequest {}).await.expect("GetServerInfo").into_inner();
    let model = control.get_model_info(GetModelInfoRequest {}).await.expect("GetModelInfo").into_inner();
    let events = control.get_kv_event_sources(GetKvEventSourcesRequest {}).await.expect("GetKvEventSources");
    let capabilities = server.rl_capabilities.unwrap_or_default();
    let names = std::iter::once(model.served_model_name).chain(model.served_model_aliases);
    let features = [
        (capabilities.weight_transfer_enabled, Feature::WeightTransfer),
        (capabilities.sleep_mode_enabled, Feature::SleepMode),
        (server.max_loras > 0, Feature::Lora),
        (!events.get_ref().sources.is_empty(), Feature::KvEvents),
    ];
    Facts {
        names: names.collect(),
        context: server.max_model_len,
        block: server.kv_block_size,
        blocks: server.total_kv_blocks.try_into().expect("a count of blocks"),
        running_max: server.max_running_requests,
        features: features.into_iter().filter_map(|(on, feature)| on.then_some(feature)).collect(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the suite's only configuration, read where it is used")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
