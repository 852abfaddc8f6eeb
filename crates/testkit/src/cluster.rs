use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tito_dataplane::{Admit, AdmitConfig, AdmitMetrics, Fanout};
use tito_engine::BoxEngine;
use tito_engine_vllm::{VllmConfig, VllmConnector};
use tito_fleet::{Blocks, Fleet, FleetConfig, FleetMetrics, Snapshot, State, Worker, Wrap};
use tito_kv_index::IndexConfig;
use tito_mock::MockConfig;
use tito_policy::PolicyKind;
use tito_router::{Route, RouteConfig, RouteMetrics};
use tito_test_support::port::ReservedPort;
use tito_test_support::wait::wait_watch;
use tito_types::{Catalog, WorkerId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::RunningMock;

/// Pauses between attempts to reach an engine: short, so that tests see a reconnect soon.
const RETRY: FleetConfig =
    FleetConfig { retry_min: Duration::from_millis(10), retry_max: Duration::from_millis(200) };
/// How long a mock may take to answer a control call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest reply accepted, in bytes.
const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// Memory of the prefix index, in bytes.
const INDEX_BYTES_MAX: usize = 64 << 20;
/// Keys the block identities.
const SECRET: u128 = 7;

/// Mock engines, the fleet over them, and the layers as the binary puts them together.
pub struct Cluster {
    mocks: Vec<RunningMock>,
    /// The gRPC port of each, its own while it restarts.
    _ports: Vec<ReservedPort>,
    engine: BoxEngine,
    blocks: Arc<Blocks>,
    registry: Registry,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    catalog: watch::Receiver<Arc<Catalog>>,
    draining: CancellationToken,
    /// The fleet's task; dropping it ends the fleet.
    _fleet: JoinSet<()>,
}

impl Cluster {
    /// Starts one engine per configuration, each on a gRPC port of the cluster's choice, and returns when the fleet has
    /// accepted all of them.
    pub async fn start(configs: Vec<MockConfig>, admission: AdmitConfig) -> Self {
        let (mut mocks, mut ports) = (Vec::new(), Vec::new());
        for config in configs {
            let port = ReservedPort::any();
            mocks.push(started(MockConfig { grpc_listen: port.address(), ..config }).await);
            ports.push(port);
        }
        let leading = |(mock, number): (&RunningMock, _)| {
            connector(mock.grpc(), number).expect("an address leads to it")
        };
        let connectors = mocks.iter().zip(1..).map(leading).collect();
        let mut registry = Registry::default();
        let blocks = Arc::new(Blocks::new(IndexConfig { bytes_max: INDEX_BYTES_MAX }, SECRET));
        let metrics = FleetMetrics::register(registry.sub_registry_with_prefix("fleet"));
        let fleet = Fleet::new(RETRY, connectors, per_engine(), Arc::clone(&blocks), metrics);
        let (snapshot, catalog) = (fleet.snapshot(), fleet.catalog());
        let draining = CancellationToken::new();
        let routing = RouteConfig {
            queue_requests_max: admission.queue_requests_max,
            queue_timeout: admission.queue_timeout,
            ..RouteConfig::new(PolicyKind::Kv, 0)
        };
        let routed = RouteMetrics::register(registry.sub_registry_with_prefix("router"));
        let admitted = AdmitMetrics::register(&mut registry);
        let route = Route::new(snapshot.clone(), Arc::clone(&blocks), routing, routed);
        let admit = Admit::new(route, admission, draining.clone(), admitted);
        let mut tasks = JoinSet::new();
        tasks.spawn(fleet.run(CancellationToken::new()));
        let mut cluster = Self {
            mocks,
            _ports: ports,
            engine: BoxEngine::new(admit),
            blocks,
            registry,
            snapshot,
            catalog,
            draining,
            _fleet: tasks,
        };
        cluster.wait_until_ready(cluster.mocks.len()).await;
        cluster
    }

    /// All layers: where a frontend would send its requests.
    pub fn engine(&self) -> &BoxEngine {
        &self.engine
    }

    /// The engines, in the order of their configurations.
    pub fn mocks(&self) -> &[RunningMock] {
        &self.mocks
    }

    /// The worker that engine `index` is in the fleet.
    pub fn worker(&self, index: usize) -> WorkerId {
        WorkerId::new(&self.mocks[index].grpc().to_string())
    }

    /// The index over the targets of all engines.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// What the fleet knows of engine `index` at the moment.
    pub fn seen(&self, index: usize) -> Arc<Worker> {
        let id = self.worker(index);
        let snapshot = Arc::clone(&self.snapshot.borrow());
        let worker = snapshot.workers.iter().find(|worker| worker.id == id);
        Arc::clone(worker.expect("a fleet keeps every worker it was made with"))
    }

    /// All metrics as text.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes it");
        text
    }

    /// Ends engine `index` and starts another on the same gRPC address. The fleet hears of neither here.
    pub async fn restart(&mut self, index: usize, config: MockConfig) {
        let address = self.mocks[index].grpc();
        let old = self.mocks.remove(index);
        old.handle().kill();
        // How it ends is no question: it was killed.
        let _ = old.stop().await;
        self.mocks.insert(index, started(MockConfig { grpc_listen: address, ..config }).await);
    }

    /// The models as they are.
    pub fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.clone()
    }

    /// Refuses new requests from now on.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Waits until exactly `count` workers are ready.
    pub async fn wait_until_ready(&mut self, count: usize) {
        let what = format!("{count} ready workers");
        wait_watch(&mut self.snapshot, &what, |snapshot| ready(snapshot) == count).await;
    }
}

async fn started(config: MockConfig) -> RunningMock {
    RunningMock::start(config).await.expect("a mock starts on a port of its own")
}

fn ready(snapshot: &Snapshot) -> usize {
    snapshot.workers.iter().filter(|worker| matches!(worker.state, State::Ready(_))).count()
}

/// Leads to an engine on the loopback interface. `number` differs between the connectors of one cluster, as the number of a
/// process does between processes.
pub fn connector(address: SocketAddr, number: u32) -> Result<VllmConnector, tito_engine_vllm::Error> {
    let config = VllmConfig {
        host: address.ip().to_string(),
        port: address.port(),
        tls: None,
        channels: 1,
        connect_timeout: CONNECT_TIMEOUT,
        stall_timeout: None,
        response_bytes_max: RESPONSE_BYTES_MAX,
        pixels: None,
        metrics: None,
    };
    VllmConnector::try_new(config, number << 16)
}

fn per_engine() -> Wrap {
    Box::new(|info, engine| BoxEngine::new(Fanout::new(engine, info.identity.n_max())))
}

#[cfg(test)]
mod tests;
