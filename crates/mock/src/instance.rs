//! Everything that the services of one mock share.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tito_engine_sim::{Model, RequestId};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::config::{KvEventsConfig, MockConfig};
use crate::control::ControlState;
use crate::engine::{Command, Engine};
use crate::faults::Faults;
use crate::journal::{AbortCause, Journal};
use crate::kv::Log;
use crate::lifecycle::Lifecycle;

/// One mock engine.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) config: MockConfig,
    pub(crate) model: Arc<Model>,
    /// The owned ranks, in order.
    pub(crate) engines: Vec<Arc<Engine>>,
    pub(crate) calls: Calls,
    pub(crate) control: ControlState,
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) lifecycle: Lifecycle,
    /// Requests that arrived, on all ranks.
    pub(crate) arrivals: AtomicU64,
    /// One permit per call alive.
    pub(crate) slots: Arc<Semaphore>,
    /// Settings of KV events per owned rank, with the ports that were bound. Empty when there are none.
    pub(crate) kv_sources: Vec<KvEventsConfig>,
    /// What each owned rank has published. Empty when events are not published.
    pub(crate) kv_logs: Vec<Arc<Log>>,
    /// What discovery calls this engine; a restart has another one.
    pub(crate) identity: String,
    /// Seconds since the Unix epoch.
    pub(crate) created: u64,
}

impl Instance {
    pub(crate) fn new(config: MockConfig, kv_sources: Vec<KvEventsConfig>, kv_logs: Vec<Arc<Log>>) -> Self {
        let model = Arc::new(Model::new(config.model_config()));
        let engines = config.owned_ranks().map(|rank| Arc::new(Engine::new(rank))).collect();
        let faults = Faults::default();
        for fault in &config.faults {
            faults.add(fault.clone()).expect("a configuration with too many faults is refused");
        }
        let instance = Self {
            model,
            engines,
            calls: Calls::default(),
            control: ControlState::new(&config.lora_modules),
            faults,
            journal: Journal::new(config.journal_requests),
            lifecycle: Lifecycle::new(),
            kv_sources,
            kv_logs,
            arrivals: AtomicU64::new(0),
            slots: Arc::new(Semaphore::new(config.max_live_requests as usize)),
            identity: config.instance_id.clone().unwrap_or_else(|| Uuid::new_v4().simple().to_string()),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            config,
        };
        instance.apply_doors();
        instance
    }

    /// Whether clients may ask for this model.
    pub(crate) fn serves(&self, name: &str) -> bool {
        let names = &self.config.served_model_names;
        if names.is_empty() { name == self.config.model } else { names.iter().any(|served| served == name) }
    }

    /// Names besides the primary one.
    pub(crate) fn aliases(&self) -> &[String] {
        self.config.served_model_names.get(1..).unwrap_or_default()
    }

    /// The engine of a global rank, if it is owned.
    pub(crate) fn engine(&self, rank: u32) -> Option<&Arc<Engine>> {
        self.engines.iter().find(|engine| engine.rank == rank)
    }

    /// The owned rank with the fewest requests in flight; the lowest of equals, as vLLM 0.32 does.
    pub(crate) fn least_loaded(&self) -> &Arc<Engine> {
        let least = self.engines.iter().min_by_key(|engine| engine.in_flight());
        least.expect("a configuration without ranks is refused")
    }

    /// What a global rank has published, if it publishes.
    pub(crate) fn kv_log(&self, rank: u32) -> Option<&Log> {
        let index = rank.checked_sub(self.config.data_parallel_start_rank)? as usize;
        self.kv_logs.get(index).map(Arc::as_ref)
    }

    /// The topic of KV events.
    pub(crate) fn kv_topic(&self) -> Bytes {
        let topic = self.config.kv_events.as_ref().map_or("", |events| &events.topic);
        Bytes::copy_from_slice(topic.as_bytes())
    }

    /// The id under which a rank's KV transfers run.
    pub(crate) fn transfer_engine_id(&self, rank: u32) -> String {
        format!("{}-{rank}", self.identity)
    }

    /// The engine dies behind the frontend.
    pub(crate) fn kill_engines(&self) {
        self.lifecycle.engine_died();
        for engine in &self.engines {
            engine.send(Command::Die);
        }
    }

    /// Lets faults that hold for all calls take effect.
    pub(crate) fn apply_doors(&self) {
        let doors = self.faults.doors();
        self.lifecycle.set_doors(doors.refuse, doors.drain);
    }
}

/// Which calls are alive under which request id. Ids need not be unique.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<BTreeMap<String, Vec<Place>>>);

/// Where a call's request runs.
type Place = (Arc<Engine>, RequestId);

impl Calls {
    pub(crate) fn add(&self, request_id: &str, engine: &Arc<Engine>, id: RequestId) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.entry(request_id.to_owned()).or_default().push((Arc::clone(engine), id));
    }

    pub(crate) fn remove(&self, request_id: &str, rank: u32, id: RequestId) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(named) = calls.get_mut(request_id) else { return };
        named.retain(|(engine, other)| engine.rank != rank || *other != id);
        if named.is_empty() {
            calls.remove(request_id);
        }
    }

    /// Ends every call with this id as aborted.
    pub(crate) fn abort(&self, request_id: &str) {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (engine, id) in calls.get(request_id).map(Vec::as_slice).unwrap_or_default() {
            engine.send(Command::Abort { id: *id, cause: AbortCause::Control, answer: true });
        }
    }

    /// Calls alive.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().map(Vec::len).sum()
    }
}
