//! Connecting, watching and reconnecting engines, and the table that makes. Knows nothing of protocols or routing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tito_engine::{AdapterFeed, BoxEngine, Connection, Connector, Control, KvFeed, LoadFeed, LoadNews, Lost};
use tito_types::{Adapter, Catalog, EngineInfo, EngineLoad, Identity, WorkerId};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::snapshot::adapter;
use crate::{Blocks, FleetMetrics, Halt, Snapshot, State, Target, Whose, Worker};

/// Puts the layers that belong to one engine around it.
pub type Wrap = Box<dyn Fn(&EngineInfo, BoxEngine) -> BoxEngine + Send + Sync>;

/// How long to wait before an engine is tried again: doubled from the first to the last.
#[derive(Debug, Clone)]
pub struct FleetConfig {
    /// First pause.
    pub retry_min: Duration,
    /// Longest pause.
    pub retry_max: Duration,
}

/// Keeps the connections and owns the table they make.
pub struct Fleet<C> {
    config: FleetConfig,
    connectors: BTreeMap<WorkerId, C>,
    wrap: Wrap,
    blocks: Arc<Blocks>,
    loads: watch::Sender<()>,
    table: Table,
}

/// The state that events change; only [`Fleet::run`] touches it.
struct Table {
    workers: BTreeMap<WorkerId, Arc<Worker>>,
    /// What each worker was when it was first accepted.
    identities: BTreeMap<WorkerId, Identity>,
    snapshot: watch::Sender<Arc<Snapshot>>,
    catalog: watch::Sender<Arc<Catalog>>,
    metrics: FleetMetrics,
}

enum Event {
    Reached(WorkerId, Reached),
    Adapters(WorkerId, Arc<[Adapter]>),
    Failed(WorkerId, String),
    Lost(WorkerId, String),
}

/// An engine that answers.
struct Reached {
    info: Arc<EngineInfo>,
    adapters: Arc<[Adapter]>,
    engine: BoxEngine,
    control: Arc<dyn Control>,
    targets: Vec<Arc<Target>>,
}

/// Events that may wait for the table; a connection waits when it is full.
const EVENTS_MAX: usize = 64;

impl<C: Connector> Fleet<C> {
    /// A fleet of these engines; two that lead to the same worker are one.
    pub fn new(
        config: FleetConfig,
        connectors: Vec<C>,
        wrap: Wrap,
        blocks: Arc<Blocks>,
        metrics: FleetMetrics,
    ) -> Self {
        let connectors: BTreeMap<_, _> =
            connectors.into_iter().map(|connector| (connector.worker().clone(), connector)).collect();
        let waiting = |id: &WorkerId| {
            metrics.unreached(id);
            let state = State::Unreachable("not reached yet".to_owned());
            let (adapters, targets) = (Arc::default(), Vec::new());
            let (control, halt) = (None, Arc::new(Halt::with_gauge(metrics.paused(id))));
            Arc::new(Worker { id: id.clone(), info: None, adapters, state, control, halt, targets })
        };
        let workers: BTreeMap<_, _> = connectors.keys().map(|id| (id.clone(), waiting(id))).collect();
        let first = Snapshot { workers: workers.values().cloned().collect() };
        let catalog = watch::Sender::new(Arc::new(first.catalog()));
        let snapshot = watch::Sender::new(Arc::new(first));
        let table = Table { workers, identities: BTreeMap::new(), snapshot, catalog, metrics };
        Self { config, connectors, wrap, blocks, loads: watch::Sender::new(()), table }
    }

    /// The fleet as it is, for the router.
    pub fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.table.snapshot.subscribe()
    }

    /// The models as they are, for the frontend.
    pub fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.table.catalog.subscribe()
    }

    /// Changes whenever an engine said what it has to do, or stopped saying it; what that is, its targets know.
    pub fn loads(&self) -> watch::Receiver<()> {
        self.loads.subscribe()
    }

    /// Connects, watches and reconnects until told to stop. One task per engine, so that a busy feed delays no other.
    pub async fn run(self, stop: CancellationToken) {
        let Self { config, connectors, wrap, blocks, loads, mut table } = self;
        let (events, mut inbox) = mpsc::channel(EVENTS_MAX);
        let metrics = table.metrics.clone();
        let shared = Arc::new(Shared { config, wrap, blocks, metrics, loads, events });
        let mut keepers = JoinSet::new();
        for (id, connector) in connectors {
            keepers.spawn(keep(connector, Arc::clone(&table.workers[&id].halt), Arc::clone(&shared)));
        }
        let handle = async {
            loop {
                tokio::select! {
                    Some(event) = inbox.recv() => table.apply(event),
                    // They run for ever: one that ended has panicked, and its engine would never be looked at again.
                    Some(ended) = keepers.join_next() => match ended {
                        Ok(()) => {}
                        Err(error) => match error.try_into_panic() {
                            Ok(panic) => std::panic::resume_unwind(panic),
                            Err(_cancelled) => {}
                        },
                    },
                    else => std::future::pending().await,
                }
            }
        };
        stop.run_until_cancelled(handle).await;
        keepers.shutdown().await;
    }
}

/// What the keepers of all engines share.
struct Shared {
    config: FleetConfig,
    wrap: Wrap,
    blocks: Arc<Blocks>,
    metrics: FleetMetrics,
    loads: watch::Sender<()>,
    events: mpsc::Sender<Event>,
}

/// Keeps one engine connected, for ever.
async fn keep<C: Connector>(connector: C, halt: Arc<Halt>, shared: Arc<Shared>) {
    let id = connector.worker();
    let FleetConfig { retry_min, retry_max } = shared.config;
    let mut pause = retry_min;
    loop {
        match connector.connect().await {
            Ok(Connection { info, engine, control, lost, kv, adapters, adapter_feed, load_feed }) => {
                pause = retry_min;
                let engine = (shared.wrap)(&info, engine);
                // Closed on every way out, also when this task is stopped.
                let mut ranks = Ranks::open(&shared, id, &info);
                ranks.adapters(adapters);
                let (adapters, targets) = (Arc::clone(&ranks.adapters), ranks.targets.clone());
                let settled = Arc::clone(&control);
                let now = Whose::of(&info, &targets);
                let (doubted, blocks) = (targets.clone(), Arc::clone(&shared.blocks));
                let doubt = || doubted.iter().for_each(|target| target.doubted(&blocks));
                let reached = Reached { info: Arc::new(info), adapters, engine, control, targets };
                let _ = shared.events.send(Event::Reached(id.clone(), reached)).await;
                let reason = tokio::select! {
                    reason = ranks.follow(kv, adapter_feed, load_feed, lost) => reason,
                    () = halt.settle(id, &now, settled.as_ref(), doubt) => unreachable!("it never ends"),
                };
                let _ = shared.events.send(Event::Lost(id.clone(), reason)).await;
            }
            Err(error) => {
                let _ = shared.events.send(Event::Failed(id.clone(), error.to_string())).await;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(retry_max);
    }
}

/// The targets of one engine instance, for as long as the connection lives.
struct Ranks<'a> {
    shared: &'a Shared,
    worker: &'a WorkerId,
    first: u32,
    /// As they were listed last.
    adapters: Arc<[Adapter]>,
    targets: Vec<Arc<Target>>,
}

impl<'a> Ranks<'a> {
    fn open(shared: &'a Shared, worker: &'a WorkerId, info: &EngineInfo) -> Self {
        let targets = Target::of_engine(&shared.blocks, worker, info, &shared.metrics);
        let first = info.identity.parallelism.data_rank;
        Self { shared, worker, first, adapters: Arc::default(), targets }
    }

    /// Books the adapters the engine has now. What one of them stored under an earlier load is cold from here on.
    fn adapters(&mut self, now: Vec<Adapter>) {
        for Adapter { name, id, source } in &now {
            let was = adapter(&self.adapters, name);
            // An engine may load other weights into an adapter in place.
            let in_place = was.is_some_and(|was| was.id == *id && was.source != *source);
            for target in &self.targets {
                target.adapter_loaded(&self.shared.blocks, name, *id);
                if in_place {
                    target.adapter_reloaded(&self.shared.blocks, name);
                }
            }
        }
        self.adapters = now.into();
    }

    /// Applies the feeds until the engine is lost; returns why.
    async fn follow(
        &mut self,
        mut feed: KvFeed,
        mut adapters: AdapterFeed,
        mut loads: LoadFeed,
        mut lost: Lost,
    ) -> String {
        let blocks = &self.shared.blocks;
        loop {
            tokio::select! {
                reason = &mut lost => return reason,
                Some(update) = feed.next() => {
                    let Some(target) = self.target(update.rank) else {
                        warn!(rank = update.rank, "news of a rank that is not behind this address");
                        continue;
                    };
                    target.apply(blocks, update.news);
                    blocks.tell_evicted();
                }
                Some(now) = adapters.next() => {
                    self.adapters(now);
                    let event = Event::Adapters(self.worker.clone(), Arc::clone(&self.adapters));
                    let _ = self.shared.events.send(event).await;
                }
                Some(news) = loads.next() => self.loads(&news),
            }
        }
    }

    /// Books what every rank has to do now; of those that are left out nothing is known.
    fn loads(&self, LoadNews { loads, problem }: &LoadNews) {
        let told: BTreeMap<u32, EngineLoad> = loads.iter().map(|load| (load.rank, *load)).collect();
        let problem = problem.as_deref().unwrap_or("its engine leaves it out");
        if self.targets.iter().any(|target| !told.contains_key(&target.rank)) {
            self.shared.metrics.load_unknown(self.worker);
        }
        for target in &self.targets {
            target.tell_load(told.get(&target.rank).copied().ok_or(problem));
        }
        self.shared.loads.send_replace(());
    }

    /// The target of a rank, if it is behind this address.
    fn target(&self, rank: u32) -> Option<&Target> {
        let at = rank.checked_sub(self.first)? as usize;
        self.targets.get(at).map(Arc::as_ref)
    }
}

impl Drop for Ranks<'_> {
    fn drop(&mut self) {
        for target in &self.targets {
            target.close(&self.shared.blocks);
        }
    }
}

impl Table {
    /// Books one event and shows the result. Synchronous, so that nobody sees it half done.
    fn apply(&mut self, event: Event) {
        match event {
            Event::Reached(id, reached) => self.reached(&id, reached),
            Event::Adapters(id, adapters) => self.adapters(&id, adapters),
            Event::Failed(id, reason) => {
                let known = self.workers.get(&id).and_then(|worker| worker.state.reason());
                self.metrics.unreached(&id);
                // Nothing new to anybody.
                if known == Some(&reason) {
                    return;
                }
                warn!(worker = %id, reason, "engine not reached, trying again");
                self.not_ready(&id, State::Unreachable(reason));
            }
            Event::Lost(id, reason) => {
                if self.workers.get(&id).is_some_and(|worker| matches!(worker.state, State::Ready(_))) {
                    warn!(worker = %id, reason, "engine lost, reconnecting");
                    self.metrics.lost(&id);
                    self.not_ready(&id, State::Unreachable(reason));
                }
            }
        }
        let snapshot = Snapshot { workers: self.workers.values().cloned().collect() };
        self.catalog.send_replace(Arc::new(snapshot.catalog()));
        self.snapshot.send_replace(Arc::new(snapshot));
    }

    fn reached(&mut self, id: &WorkerId, reached: Reached) {
        let Reached { info, adapters, engine, control, targets } = reached;
        if let Some(change) = self.identities.get(id).and_then(|known| Change::between(known, &info.identity))
        {
            error!(worker = %id, %change, "engine refused: it is not the one this worker was");
            self.metrics.unreached(id);
            self.not_ready(id, State::Refused(format!("identity changed: {change}")));
            return;
        }
        self.identities.entry(id.clone()).or_insert_with(|| info.identity.clone());
        let Identity { model, max_model_len, .. } = &info.identity;
        let loaded = adapters.len();
        let (model, instance, version) = (&model.names[0], &info.instance_id, &info.engine_version);
        info!(worker = %id, model, max_model_len, instance, version, adapters = loaded, "engine ready");
        self.metrics.accepted(id);
        let Some(worker) = self.workers.get_mut(id) else { return };
        let (info, state, control) = (Some(info), State::Ready(engine), Some(control));
        *worker = Arc::new(Worker { info, adapters, state, control, targets, ..Worker::clone(worker) });
    }

    fn adapters(&mut self, id: &WorkerId, adapters: Arc<[Adapter]>) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        if !matches!(worker.state, State::Ready(_)) {
            return;
        }
        let new = |now: &&Adapter| adapter(&worker.adapters, &now.name) != Some(now);
        for Adapter { name, id: load, source } in adapters.iter().filter(new) {
            info!(worker = %id, adapter = name, load, source, "adapter loaded");
        }
        let gone = |was: &&Adapter| adapter(&adapters, &was.name).is_none();
        for Adapter { name, .. } in worker.adapters.iter().filter(gone) {
            info!(worker = %id, adapter = name, "adapter unloaded");
        }
        *worker = Arc::new(Worker { adapters, ..Worker::clone(worker) });
    }

    /// The worker is not ready and has no targets: what is in flight on the old ones is theirs to release.
    fn not_ready(&mut self, id: &WorkerId, state: State) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        *worker = Arc::new(Worker { state, control: None, targets: Vec::new(), ..Worker::clone(worker) });
    }
}

/// The first part of an identity that differs.
struct Change {
    field: &'static str,
    was: String,
    is: String,
}

impl Change {
    fn between(was: &Identity, is: &Identity) -> Option<Self> {
        // No `..`: a field added to the identity is compared from the day it exists.
        let Identity {
            model,
            parallelism,
            capabilities,
            max_model_len,
            kv_block_size,
            total_kv_blocks,
            max_running_requests,
            max_batched_tokens,
        } = is;
        // A restarted engine may find a little more or less memory for its blocks.
        let _ = total_kv_blocks;
        Self::of("model", &was.model, model)
            .or_else(|| Self::of("parallelism", &was.parallelism, parallelism))
            .or_else(|| Self::of("capabilities", &was.capabilities, capabilities))
            .or_else(|| Self::of("max_model_len", &was.max_model_len, max_model_len))
            .or_else(|| Self::of("kv_block_size", &was.kv_block_size, kv_block_size))
            .or_else(|| Self::of("max_running_requests", &was.max_running_requests, max_running_requests))
            .or_else(|| Self::of("max_batched_tokens", &was.max_batched_tokens, max_batched_tokens))
    }
}

impl Change {
    fn of<T: PartialEq + fmt::Debug>(field: &'static str, was: &T, is: &T) -> Option<Self> {
        (was != is).then(|| Self { field, was: format!("{was:?}"), is: format!("{is:?}") })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was {} and is {}", self.field, self.was, self.is)
    }
}

#[cfg(test)]
mod tests;
