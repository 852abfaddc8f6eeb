//! The fleet at one moment, as everybody reads it. Immutable; knows nothing of connections.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tito_engine::{BoxEngine, Control};
use tito_types::{Adapter, Catalog, CatalogModel, EngineInfo, WorkerId};

use crate::{Halt, Target};

/// The fleet at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Every configured worker, by id.
    pub workers: Vec<Arc<Worker>>,
}

/// One schedulable engine.
#[derive(Clone)]
pub struct Worker {
    /// Its id; ties between workers break by it.
    pub id: WorkerId,
    /// What it said about itself when it was last reached.
    pub info: Option<Arc<EngineInfo>>,
    /// The adapters it had loaded when they were last listed, in order of name; none bears one of the engine's own names.
    pub adapters: Arc<[Adapter]>,
    /// Whether requests may be sent to it.
    pub state: State,
    /// Where orders to it go; absent while it is not ready.
    pub control: Option<Arc<dyn Control>>,
    /// Whether it is paused by us.
    pub halt: Arc<Halt>,
    /// One per data-parallel rank behind it, by rank; empty while it is not ready.
    pub targets: Vec<Arc<Target>>,
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

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("id", &self.id).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Worker {
    /// Whether the data-parallel rank of that global number is behind it.
    pub fn owns(&self, rank: u32) -> bool {
        self.info.as_ref().is_some_and(|info| info.identity.parallelism.local_ranks().contains(&rank))
    }
}

impl Snapshot {
    /// The models a client can ask for: one entry per primary name and one per adapter, with limits that hold on every
    /// engine that is ready.
    pub fn catalog(&self) -> Catalog {
        let mut catalog = Catalog::default();
        let mut places = BTreeMap::new();
        for worker in &self.workers {
            if let Some(reason) = worker.state.reason() {
                catalog.reasons.push(format!("worker {} is {}: {reason}", worker.id, worker.state.word()));
            }
            if let Some(info) = &worker.info {
                let model = model_of(info, matches!(worker.state, State::Ready(_)));
                let adapters = worker.adapters.iter().map(|adapter| adapter_of(adapter, &model));
                for entry in std::iter::once(model.clone()).chain(adapters) {
                    add(&mut catalog.models, &mut places, entry);
                }
            }
        }
        if self.workers.is_empty() {
            catalog.reasons.push("no engine is configured".to_owned());
        }
        catalog
    }
}

/// The adapter of that name; `adapters` are in order of name.
pub(crate) fn adapter<'a>(adapters: &'a [Adapter], name: &str) -> Option<&'a Adapter> {
    let place = adapters.binary_search_by(|adapter| adapter.name.as_str().cmp(name)).ok()?;
    Some(&adapters[place])
}

fn model_of(info: &EngineInfo, ready: bool) -> CatalogModel {
    let identity = &info.identity;
    CatalogModel {
        names: identity.model.names.clone(),
        source: identity.model.source.clone(),
        parent: None,
        max_model_len: identity.max_model_len,
        n_max: identity.n_max(),
        routable: ready,
    }
}

/// Works within the limits of what it adapts.
fn adapter_of(adapter: &Adapter, model: &CatalogModel) -> CatalogModel {
    CatalogModel {
        names: vec![adapter.name.clone()],
        source: adapter.source.clone(),
        parent: Some(model.names[0].clone()),
        ..model.clone()
    }
}

/// Ready engines decide an entry; one that is not ready only keeps the name known.
fn add(models: &mut Vec<CatalogModel>, places: &mut BTreeMap<String, usize>, new: CatalogModel) {
    let Some(&place) = places.get(&new.names[0]) else {
        places.insert(new.names[0].clone(), models.len());
        models.push(new);
        return;
    };
    let known = &mut models[place];
    match (known.routable, new.routable) {
        (false, true) => *known = new,
        (true | false, false) => {}
        (true, true) => {
            known.max_model_len = known.max_model_len.min(new.max_model_len);
            known.n_max = known.n_max.min(new.n_max);
            // What one engine serves as a model of its own is one, whatever another adapts under its name.
            known.parent = known.parent.take().filter(|_| new.parent.is_some());
            for name in new.names {
                if !known.names.contains(&name) {
                    known.names.push(name);
                }
            }
        }
    }
}
