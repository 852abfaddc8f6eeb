//! Connecting, watching and reconnecting engines, and the table that makes. Knows nothing of protocols or routing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tito_engine::{BoxEngine, Connection, Connector};
use tito_types::{Catalog, EngineInfo, Identity, WorkerId};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{FleetMetrics, Load, Snapshot, State, Worker};

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
    Reached(WorkerId, Arc<EngineInfo>, BoxEngine),
    Failed(WorkerId, String),
    Lost(WorkerId, String),
}

/// Events that may wait for the table; a connection waits when it is full.
const EVENTS_MAX: usize = 64;

impl<C: Connector> Fleet<C> {
    /// A fleet of these engines; two that lead to the same worker are one.
    pub fn new(config: FleetConfig, connectors: Vec<C>, wrap: Wrap, metrics: FleetMetrics) -> Self {
        let connectors: BTreeMap<_, _> =
            connectors.into_iter().map(|connector| (connector.worker().clone(), connector)).collect();
        let waiting = |id: &WorkerId| {
            metrics.unreached(id);
            let state = State::Unreachable("not reached yet".to_owned());
            Arc::new(Worker { id: id.clone(), info: None, state, load: Load::default() })
        };
        let workers: BTreeMap<_, _> = connectors.keys().map(|id| (id.clone(), waiting(id))).collect();
        let first = Snapshot { workers: workers.values().cloned().collect() };
        let catalog = watch::Sender::new(Arc::new(first.catalog()));
        let snapshot = watch::Sender::new(Arc::new(first));
        let table = Table { workers, identities: BTreeMap::new(), snapshot, catalog, metrics };
        Self { config, connectors, wrap, table }
    }

    /// The fleet as it is, for the router.
    pub fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.table.snapshot.subscribe()
    }

    /// The models as they are, for the frontend.
    pub fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.table.catalog.subscribe()
    }

    /// Connects, watches and reconnects until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let Self { config, connectors, wrap, mut table } = self;
        let (events, mut inbox) = mpsc::channel(EVENTS_MAX);
        let mut connections: FuturesUnordered<_> =
            connectors.values().map(|connector| keep(connector, &config, &wrap, events.clone())).collect();
        let handle = async {
            loop {
                tokio::select! {
                    Some(event) = inbox.recv() => table.apply(event),
                    Some(()) = connections.next() => {}
                    else => std::future::pending().await,
                }
            }
        };
        stop.run_until_cancelled(handle).await;
    }
}

/// Keeps one engine connected, for ever.
async fn keep<C: Connector>(connector: &C, config: &FleetConfig, wrap: &Wrap, events: mpsc::Sender<Event>) {
    let id = connector.worker();
    let mut pause = config.retry_min;
    loop {
        match connector.connect().await {
            Ok(Connection { info, engine, lost, kv: _ }) => {
                pause = config.retry_min;
                let engine = wrap(&info, engine);
                let _ = events.send(Event::Reached(id.clone(), Arc::new(info), engine)).await;
                let reason = lost.await;
                let _ = events.send(Event::Lost(id.clone(), reason)).await;
            }
            Err(error) => {
                let _ = events.send(Event::Failed(id.clone(), error.to_string())).await;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(config.retry_max);
    }
}

impl Table {
    /// Books one event and shows the result. Synchronous, so that nobody sees it half done.
    fn apply(&mut self, event: Event) {
        match event {
            Event::Reached(id, info, engine) => self.reached(&id, info, engine),
            Event::Failed(id, reason) => {
                let known = self.workers.get(&id).and_then(|worker| worker.state.reason());
                if known != Some(&reason) {
                    warn!(worker = %id, reason, "engine not reached, trying again");
                }
                self.metrics.unreached(&id);
                self.set(&id, None, State::Unreachable(reason));
            }
            Event::Lost(id, reason) => {
                if self.workers.get(&id).is_some_and(|worker| matches!(worker.state, State::Ready(_))) {
                    warn!(worker = %id, reason, "engine lost, reconnecting");
                    self.metrics.lost(&id);
                    self.set(&id, None, State::Unreachable(reason));
                }
            }
        }
        let snapshot = Snapshot { workers: self.workers.values().cloned().collect() };
        self.catalog.send_replace(Arc::new(snapshot.catalog()));
        self.snapshot.send_replace(Arc::new(snapshot));
    }

    fn reached(&mut self, id: &WorkerId, info: Arc<EngineInfo>, engine: BoxEngine) {
        if let Some(change) = self.identities.get(id).and_then(|known| Change::between(known, &info.identity))
        {
            error!(worker = %id, %change, "engine refused: it is not the one this worker was");
            self.metrics.unreached(id);
            self.set(id, None, State::Refused(format!("identity changed: {change}")));
            return;
        }
        self.identities.entry(id.clone()).or_insert_with(|| info.identity.clone());
        let Identity { model, max_model_len, .. } = &info.identity;
        let (model, instance, version) = (&model.names[0], &info.instance_id, &info.engine_version);
        info!(worker = %id, model, max_model_len, instance, version, "engine ready");
        self.metrics.accepted(id);
        self.set(id, Some(info), State::Ready(engine));
    }

    /// Every new instance starts with no load of its own; what ran on the old one releases the old count.
    fn set(&mut self, id: &WorkerId, new_info: Option<Arc<EngineInfo>>, state: State) {
        let Some(old) = self.workers.get(id) else { return };
        let load = if new_info.is_some() { Load::default() } else { old.load.clone() };
        let info = new_info.or_else(|| old.info.clone());
        self.workers.insert(id.clone(), Arc::new(Worker { id: id.clone(), info, state, load }));
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
