//! Mocks behind a fleet, and the comparison of what the fleet believes with what the mocks have cached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tito_dataplane::AdmitConfig;
use tito_fleet::{Target, TargetId};
use tito_mock::{Fault, FaultSpec, FrameFault, KvEventsConfig, KvStyle, MockConfig, MockHandle, Multimodal};
use tito_test_support::wait::wait_until;
use tito_testkit::Cluster;
use tito_types::{IndexReport, KvCounters, Tier};
use tonic::transport::{Channel, Endpoint};
use vllm_proto::control_client::ControlClient;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{LoadLoraRequest, PauseGenerationRequest, ResumeGenerationRequest, UnloadLoraRequest};

use crate::ask::Ask;

/// Tokens of the prompts that show how far a feed has come: no other prompt begins like them.
const MARKER_TOKEN: u32 = 900;
/// Markers that can be told apart: two digits to the base of the ids above [`MARKER_TOKEN`].
const MARKER_DIGITS: u32 = 90;

/// Two ranks of few blocks each, so that blocks are removed all the time.
pub(crate) fn config(kv_style: KvStyle) -> MockConfig {
    let events = r#"{"enable_kv_cache_events":true,"endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}"#;
    MockConfig {
        data_parallel_size: 2,
        block_size: 16,
        num_gpu_blocks: 20,
        max_model_len: 256,
        kv_events: Some(KvEventsConfig::parse(events).unwrap()),
        kv_style,
        multimodal: Some(Multimodal::default()),
        enable_lora: true,
        max_loras: 2,
        lora_modules: vec![("ad1".to_owned(), "/one".to_owned()), ("ad2".to_owned(), "/two".to_owned())],
        ..MockConfig::new()
    }
}

/// What a target's report says, in short.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) complete: bool,
    pub(crate) reason: Option<String>,
    pub(crate) counters: KvCounters,
}

/// Mocks, the fleet over them, and every prompt they were asked for.
pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    clients: Vec<InferenceClient<Channel>>,
    /// Without what each holds of the others' prompts there would be no false positive to find.
    probes: Vec<Ask>,
    markers: u32,
    /// Which test or seed this is, for what is printed when it fails.
    what: String,
}

impl Bench {
    /// Starts the mocks and waits until every rank's history is whole.
    pub(crate) async fn start(what: String, configs: Vec<MockConfig>) -> Self {
        let bench = Self::start_at_once(what, configs).await;
        bench.until_complete().await;
        bench
    }

    /// Starts the mocks.
    pub(crate) async fn start_at_once(what: String, configs: Vec<MockConfig>) -> Self {
        let admission =
            AdmitConfig { in_flight_max: 64, queue_requests_max: 64, queue_timeout: Duration::from_secs(30) };
        let cluster = Cluster::start(configs, admission).await;
        let clients = cluster.mocks().iter().map(|mock| client(mock.grpc())).collect();
        Self { cluster, clients, probes: Vec::new(), markers: 0, what }
    }

    /// Waits until every rank of every mock is complete.
    pub(crate) async fn until_complete(&self) {
        let complete = || {
            (0..self.clients.len()).all(|mock| {
                let targets = &self.cluster.seen(mock).targets;
                !targets.is_empty() && targets.iter().all(|target| target.complete())
            })
        };
        wait_until(&format!("every rank complete, {}", self.what), complete).await;
    }

    pub(crate) fn handle(&self, mock: usize) -> &MockHandle {
        self.cluster.mocks()[mock].handle()
    }

    /// Every target with the mock it is in.
    pub(crate) fn targets(&self) -> Vec<(usize, Arc<Target>)> {
        let of = |mock| self.cluster.seen(mock).targets.clone().into_iter().map(move |target| (mock, target));
        (0..self.clients.len()).flat_map(of).collect()
    }

    pub(crate) fn target(&self, mock: usize, rank: u32) -> Arc<Target> {
        let targets = self.targets();
        let found = targets.iter().find(|(of, target)| *of == mock && target.rank == rank);
        let state = &self.cluster.seen(mock).state;
        let gone = || panic!("{}: mock {mock} has no rank {rank}, it is {state:?}", self.what);
        Arc::clone(&found.unwrap_or_else(gone).1)
    }

    /// Asks one rank and returns what it generated.
    pub(crate) async fn ask(&mut self, mock: usize, rank: u32, ask: &Ask) -> Vec<u32> {
        self.ask_all(vec![(mock, rank, ask.clone())]).await.remove(0)
    }

    /// Asks for several at once, and returns what each generated.
    pub(crate) async fn ask_all(&mut self, asks: Vec<(usize, u32, Ask)>) -> Vec<Vec<u32>> {
        let calls = asks.iter().map(|(mock, rank, ask)| {
            let mut request = tonic::Request::new(ask.request());
            request.metadata_mut().insert("x-data-parallel-rank", rank.to_string().parse().unwrap());
            let (mut client, what) = (self.clients[*mock].clone(), &self.what);
            async move {
                let answered = client.generate(request).await;
                let answered = answered.unwrap_or_else(|status| panic!("{what}: {ask:?}: {status}"));
                answered.into_inner().outputs.unwrap_or_default().token_ids
            }
        });
        let outputs = futures_util::future::join_all(calls).await;
        self.probes.extend(asks.iter().zip(&outputs).map(|((_, _, ask), output)| ask.continued(output)));
        outputs
    }

    /// A prompt that some engine was asked for.
    pub(crate) fn remember(&mut self, ask: Ask) {
        self.probes.push(ask);
    }

    /// Prompts are no longer compared.
    pub(crate) fn forget(&mut self) {
        self.probes.clear();
    }

    /// Waits until the index has every batch that the engines have published; only where no batch is lost.
    pub(crate) async fn caught_up(&self) {
        let targets = self.targets();
        let caught_up = || {
            targets.iter().all(|(mock, target)| {
                let published = self.handle(*mock).kv_last_seq(target.rank).map_or(0, |last| last + 1);
                target.report().counters.batches == published
            })
        };
        wait_until(&format!("every batch applied, {}", self.what), caught_up).await;
    }

    /// The next batches of a rank go wrong.
    pub(crate) fn fault(&self, mock: usize, rank: u32, frame: FrameFault, count: u32) {
        let at_seq = self.handle(mock).kv_last_seq(rank).map_or(0, |last| last + 1);
        self.set(mock, Fault::KvFrame { rank: Some(rank), at_seq, frame }, count);
    }

    pub(crate) fn set(&self, mock: usize, fault: Fault, count: u32) {
        self.handle(mock).add_fault(FaultSpec { count: Some(count), ..FaultSpec::new(fault) }).unwrap();
    }

    async fn control(&self, mock: usize) -> ControlClient<Channel> {
        ControlClient::connect(format!("http://{}", self.cluster.mocks()[mock].grpc())).await.unwrap()
    }

    /// The engine drops its cache, and says so with its next block.
    pub(crate) async fn clear(&self, mock: usize) {
        let mut control = self.control(mock).await;
        control.pause_generation(PauseGenerationRequest::default()).await.unwrap();
        control.resume_generation(ResumeGenerationRequest {}).await.unwrap();
    }

    /// The engine drops its cache because we tell it to, whatever it is doing.
    pub(crate) async fn command_clear(&self, mock: usize) {
        self.cluster.seen(mock).clear_cache(self.cluster.blocks(), || ()).await.unwrap();
    }

    /// An adapter is loaded again, from somewhere else: what an engine keeps of equal weights, the fleet takes for cold.
    /// Returns when the fleet knows.
    pub(crate) async fn reload(&self, mock: usize, name: &str) {
        let generations = || -> Vec<u64> {
            self.cluster.seen(mock).targets.iter().map(|target| target.generations().of(name)).collect()
        };
        let before = generations();
        let mut control = self.control(mock).await;
        control.unload_lora(UnloadLoraRequest { lora_name: name.to_owned() }).await.unwrap();
        let (lora_name, source_path) = (name.to_owned(), format!("org/after-{}", before[0]));
        control.load_lora(LoadLoraRequest { lora_name, source_path }).await.unwrap();
        let known = || generations().iter().zip(&before).all(|(is, was)| is > was);
        wait_until(&format!("{name} loaded again, {}", self.what), known).await;
    }

    /// Another engine behind the same address; returns when the fleet has its ranks.
    pub(crate) async fn restart(&mut self, mock: usize, config: MockConfig) {
        let old: BTreeSet<TargetId> = self.targets().iter().map(|(_, target)| target.id).collect();
        self.cluster.restart(mock, config).await;
        self.clients[mock] = client(self.cluster.mocks()[mock].grpc());
        let cluster = &self.cluster;
        let reached = || {
            let targets = cluster.seen(mock).targets.clone();
            !targets.is_empty() && targets.iter().all(|target| !old.contains(&target.id))
        };
        wait_until(&format!("the restarted engine, {}", self.what), reached).await;
    }

    /// Waits until a mock that turned everybody away was noticed, lets everybody in again, and waits until that was.
    pub(crate) async fn reconnect(&self, mock: usize) {
        let cluster = &self.cluster;
        let gone = || cluster.seen(mock).targets.is_empty();
        wait_until(&format!("an engine out of reach, {}", self.what), gone).await;
        self.handle(mock).clear_faults();
        wait_until(&format!("the engine back, {}", self.what), || !gone()).await;
    }

    /// Ends all faults and waits until every feed has caught up with its rank, as a prompt of its own shows.
    pub(crate) async fn settle(&mut self) {
        for mock in 0..self.clients.len() {
            self.handle(mock).clear_faults();
        }
        for (mock, target) in self.targets() {
            self.markers += 1;
            let (high, low) = (self.markers / MARKER_DIGITS % MARKER_DIGITS, self.markers % MARKER_DIGITS);
            let marker = [MARKER_TOKEN, MARKER_TOKEN + 1 + high, MARKER_TOKEN + 1 + low];
            let marker = Ask::text(marker.into_iter().cycle().take(2 * target.block_tokens() as usize + 1));
            self.ask(mock, target.rank, &marker).await;
            let what = format!("the end of the feed of rank {} of mock {mock}, {}", target.rank, self.what);
            wait_until(&what, || self.found(&marker, &target).get(&target.id) == Some(&2)).await;
        }
    }

    /// Leading blocks of a prompt, as one target names them, on every target that has some.
    fn found(&self, ask: &Ask, target: &Target) -> BTreeMap<TargetId, u32> {
        let (blocks, mut found) = (self.cluster.blocks(), BTreeMap::new());
        let chain = ask.chain(blocks.hasher(), &target.generations(), target.block_tokens());
        blocks.find(&chain, |target, tier, leading| {
            assert_eq!(tier, Tier::Gpu, "{}: the mock tells of no other", self.what);
            assert_eq!(found.insert(target, leading), None, "{}: a target told twice", self.what);
        });
        found
    }

    /// What every target is known to be, by mock and rank, after all that it claims was held against its mock.
    pub(crate) fn check(&self) -> BTreeMap<(usize, u32), Seen> {
        let targets = self.targets();
        let known: BTreeSet<TargetId> = targets.iter().map(|(_, target)| target.id).collect();
        let strangers = self.probes.iter().rev().take(16).flat_map(Ask::strangers);
        let probes: Vec<Ask> = self.probes.iter().cloned().chain(strangers).collect();
        let mut seen = BTreeMap::new();
        let mut sum = 0;
        for (mock, target) in &targets {
            let resident = self.handle(*mock).kv_state(target.rank).unwrap().resident;
            let report = target.report();
            let at = format!("{}: rank {} of mock {mock}, {report:?}", self.what, target.rank);
            let complete = report.state == "complete";
            let IndexReport { blocks: [held, cpu, storage], reason, counters, .. } = report;
            assert_eq!((cpu, storage), (0, 0), "{at}");
            assert!(held <= resident.len() as u64, "{at}: {} blocks are there", resident.len());
            assert!(!complete || held == resident.len() as u64, "{at}: {} blocks are there", resident.len());
            sum += held;
            for probe in &probes {
                let Some(names) = self.handle(*mock).kv_names(&probe.request()) else { continue };
                let truth = names.iter().take_while(|name| resident.contains(name)).count();
                let found = self.found(probe, target);
                assert!(found.keys().all(|id| known.contains(id)), "{at}: a gone target holds {probe:?}");
                let found = found.get(&target.id).map_or(0, |&leading| leading as usize);
                assert!(found <= truth, "{at}: {found} leading blocks, {truth} are there, of {probe:?}");
                assert!(!complete || found == truth, "{at}: {found} of {truth} leading blocks of {probe:?}");
            }
            seen.insert((*mock, target.rank), Seen { complete, reason, counters });
        }
        let stats = self.cluster.blocks().stats();
        assert_eq!(stats.memberships, sum, "{}: {stats:?}", self.what);
        seen
    }

    /// Clears every engine; from there on everything must be known again.
    pub(crate) async fn clear_and_check(&mut self) {
        for mock in 0..self.clients.len() {
            self.clear(mock).await;
        }
        self.settle().await;
        self.until_complete().await;
        assert!(self.check().values().all(|seen| seen.complete), "{}", self.what);
    }
}

fn client(address: std::net::SocketAddr) -> InferenceClient<Channel> {
    InferenceClient::new(Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy())
}
