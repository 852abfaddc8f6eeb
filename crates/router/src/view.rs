//! The targets as of one snapshot of the fleet, by what they serve. Immutable; knows nothing of loads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tito_engine::BoxEngine;
use tito_fleet::{Generations, Snapshot, Target, TargetId, Worker};
use tito_policy::{Group, Slot};

/// A map that every request looks into, where the order of its entries decides nothing.
#[expect(clippy::disallowed_types, reason = "looked up by key; where it is read whole, no order can leak")]
pub(crate) type Lookup<K, V> = std::collections::HashMap<K, V>;

/// The targets requests can be sent to, as of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct View {
    snapshot: Arc<Snapshot>,
    pub(crate) places: Lookup<TargetId, Place>,
    by_slot: Lookup<Slot, TargetId>,
    /// Workers that serve the same names are one group.
    pub(crate) groups: BTreeMap<Serves, Group>,
    /// Who serves each name.
    serving: Lookup<String, Serving>,
    shapes: Lookup<Group, Shape>,
    /// What [`tito_fleet::Blocks::shape_version`] was.
    version: u64,
}

/// The names a worker serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Serves {
    /// Its own.
    models: Vec<String>,
    /// Adapters it has loaded.
    adapters: Vec<String>,
}

impl Serves {
    pub(crate) fn of(worker: &Worker) -> Self {
        let info = worker.info.as_ref();
        let models = info.map(|info| info.identity.model.names.clone()).unwrap_or_default();
        Self { models, adapters: worker.adapters.iter().map(|adapter| adapter.name.clone()).collect() }
    }
}

/// Who serves one name.
#[derive(Debug, Default)]
struct Serving {
    groups: Vec<Group>,
    /// Those of them whose adapter it is.
    adapting: Vec<Group>,
}

/// What lookups must know of a group's block tables.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// Every block size among them, in tokens.
    pub(crate) block_tokens: BTreeSet<u32>,
    /// Whether some cannot tell which blocks hold which media.
    pub(crate) media_inexact: bool,
    targets: usize,
    /// Generations of adapters that were loaded once.
    first: BTreeSet<u64>,
    /// Of each other adapter: its generations, and how many targets loaded it again.
    reloaded: Lookup<Arc<str>, (BTreeSet<u64>, usize)>,
}

/// One target on the board.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) target: Arc<Target>,
    pub(crate) slot: Slot,
    pub(crate) group: Group,
    pub(crate) engine: BoxEngine,
    /// Whether the engine behind it has other ranks, so that ours must be said.
    pub(crate) ranked: bool,
    /// How often its adapters were loaded again.
    pub(crate) generations: Arc<Generations>,
}

impl View {
    /// Without any targets yet.
    pub(crate) fn of(snapshot: &Arc<Snapshot>) -> Self {
        Self { snapshot: Arc::clone(snapshot), ..Self::default() }
    }

    pub(crate) fn is_of(&self, snapshot: &Arc<Snapshot>) -> bool {
        Arc::ptr_eq(&self.snapshot, snapshot)
    }

    /// The fleet it shows.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The groups that serve a name.
    pub(crate) fn serving(&self, model: &str) -> Vec<Group> {
        self.serving.get(model).map(|serving| serving.groups.clone()).unwrap_or_default()
    }

    /// The groups to which a name is that of an adapter.
    pub(crate) fn adapting(&self, model: &str) -> &[Group] {
        self.serving.get(model).map_or(&[], |serving| &serving.adapting)
    }

    /// What besides the prompt tells its blocks apart on a target: the generation of the adapter that the model is.
    pub(crate) fn generation(&self, place: &Place, model: &str) -> Option<u64> {
        place.generation(self.adapting(model), model)
    }

    /// Every block size and generation under which the groups may hold a prompt.
    pub(crate) fn namespaces(&self, groups: &[Group], model: &str) -> BTreeSet<(u32, Option<u64>)> {
        let mut namespaces = BTreeSet::new();
        let adapting = self.adapting(model);
        for group in groups {
            let Some(shape) = self.shapes.get(group) else { continue };
            for &size in &shape.block_tokens {
                if adapting.contains(group) {
                    namespaces.extend(shape.generations(model).iter().map(|&seen| (size, Some(seen))));
                } else {
                    namespaces.insert((size, None));
                }
            }
        }
        namespaces
    }

    /// What lookups must know of a group.
    pub(crate) fn shape(&self, group: Group) -> Option<&Shape> {
        self.shapes.get(&group)
    }

    /// The target behind a slot.
    pub(crate) fn place(&self, slot: Slot) -> Option<&Place> {
        self.places.get(self.by_slot.get(&slot)?)
    }

    pub(crate) fn add(&mut self, id: TargetId, place: Place) {
        self.by_slot.insert(place.slot, id);
        self.places.insert(id, place);
    }

    /// Works out what follows from groups and places, as the block tables were at that version.
    pub(crate) fn finish(&mut self, version: u64) {
        self.version = version;
        for (serves, &group) in &self.groups {
            for (names, adapters) in [(&serves.models, false), (&serves.adapters, true)] {
                for name in names {
                    let serving = self.serving.entry(name.clone()).or_default();
                    serving.groups.push(group);
                    if adapters {
                        serving.adapting.push(group);
                    }
                }
            }
        }
        for place in self.places.values() {
            self.shapes.entry(place.group).or_default().add(place);
        }
    }
}

impl Place {
    /// As [`View::generation`], given who takes the model for an adapter.
    pub(crate) fn generation(&self, adapting: &[Group], model: &str) -> Option<u64> {
        adapting.contains(&self.group).then(|| self.generations.of(model))
    }
}

impl Shape {
    fn add(&mut self, Place { target, generations, .. }: &Place) {
        self.block_tokens.insert(target.block_tokens());
        self.media_inexact |= target.media_inexact();
        self.targets += 1;
        self.first.insert(generations.base());
        for (name, generation) in generations.reloaded() {
            let (seen, targets) = self.reloaded.entry(Arc::clone(name)).or_default();
            seen.insert(generation);
            *targets += 1;
        }
    }

    /// Every generation of an adapter among the targets. Fleets that load together have one.
    fn generations(&self, adapter: &str) -> BTreeSet<u64> {
        match self.reloaded.get(adapter) {
            None => self.first.clone(),
            Some((seen, targets)) if *targets == self.targets => seen.clone(),
            Some((seen, _)) => seen | &self.first,
        }
    }
}
