//! The fleet at one moment, as everybody reads it. Immutable; knows nothing of connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tito_engine::BoxEngine;
use tito_types::{Catalog, CatalogModel, EngineInfo, Parallelism, WorkerId};

/// The fleet at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Every configured worker, by id.
    pub workers: Vec<Arc<Worker>>,
}

/// One schedulable engine.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Name; ties between workers break by it.
    pub id: WorkerId,
    /// What it said about itself when it was last reached.
    pub info: Option<Arc<EngineInfo>>,
    /// Whether requests may be sent to it.
    pub state: State,
    /// What this process has sent to it and not seen end.
    pub load: Load,
}

/// Whether requests may be sent to a worker.
#[derive(Debug, Clone)]
pub enum State {
    /// Healthy: requests go here.
    Ready(BoxEngine),
    /// Not reached yet, or lost; being tried again.
    Unreachable(String),
    /// Reached, and not what it was before; stays out until it is again.
    Refused(String),
}

impl State {
    /// A word for logs and lists.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ready(_) => "ready",
            Self::Unreachable(_) => "unreachable",
            Self::Refused(_) => "refused",
        }
    }

    /// Why it is not ready.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Ready(_) => None,
            Self::Unreachable(reason) | Self::Refused(reason) => Some(reason),
        }
    }
}

/// Continuations in flight on one worker instance.
#[derive(Debug, Clone, Default)]
pub struct Load(Arc<AtomicUsize>);

impl Load {
    /// How many.
    pub fn in_flight(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts `n` more until the guard is dropped.
    pub fn begin(&self, n: u32) -> InFlight {
        let n = n as usize;
        self.0.fetch_add(n, Ordering::Relaxed);
        InFlight { load: self.clone(), n }
    }
}

/// One request's load on one worker; dropping it is the only way to release it.
#[derive(Debug)]
pub struct InFlight {
    load: Load,
    n: usize,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.load.0.fetch_sub(self.n, Ordering::Relaxed);
    }
}

impl Worker {
    /// Whether it serves that name.
    pub fn serves(&self, model: &str) -> bool {
        self.info.as_ref().is_some_and(|info| info.identity.model.names.iter().any(|name| name == model))
    }
}

impl Worker {
    /// Whether the data-parallel rank of that global number is behind it.
    pub fn owns(&self, rank: u32) -> bool {
        self.info.as_ref().is_some_and(|info| {
            let Parallelism { data_rank, data_local, .. } = info.identity.parallelism;
            (data_rank..data_rank.saturating_add(data_local.max(1))).contains(&rank)
        })
    }
}

impl Snapshot {
    /// The models a client can ask for: one entry per primary name, limits that hold on every engine that is ready.
    pub fn catalog(&self) -> Catalog {
        let mut catalog = Catalog::default();
        for worker in &self.workers {
            if let Some(reason) = worker.state.reason() {
                catalog.reasons.push(format!("worker {} is {}: {reason}", worker.id, worker.state.word()));
            }
            if let Some(info) = &worker.info {
                add(&mut catalog.models, info, matches!(worker.state, State::Ready(_)));
            }
        }
        if self.workers.is_empty() {
            catalog.reasons.push("no engine is configured".to_owned());
        }
        catalog
    }
}

/// Ready engines decide an entry; one that is not ready only keeps the name known.
fn add(models: &mut Vec<CatalogModel>, info: &EngineInfo, ready: bool) {
    let identity = &info.identity;
    let new = CatalogModel {
        names: identity.model.names.clone(),
        source: identity.model.source.clone(),
        max_model_len: identity.max_model_len,
        n_max: identity.n_max(),
        routable: ready,
    };
    let Some(known) = models.iter_mut().find(|known| known.names[0] == new.names[0]) else {
        models.push(new);
        return;
    };
    match (known.routable, ready) {
        (false, true) => *known = new,
        (true | false, false) => {}
        (true, true) => {
            known.max_model_len = known.max_model_len.min(new.max_model_len);
            known.n_max = known.n_max.min(new.n_max);
            for name in new.names {
                if !known.names.contains(&name) {
                    known.names.push(name);
                }
            }
        }
    }
}
