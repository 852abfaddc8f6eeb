use std::sync::Arc;

use tito_fleet::{Snapshot, State, Worker};
use tito_types::WorkerId;

/// The ready worker that serves `model` with the least in flight; ties break by id, not by luck.
///
/// A pinned rank goes to a worker that owns it. When none does, the engine that gets the request refuses it by name.
pub fn choose<'a>(
    snapshot: &'a Snapshot,
    model: &str,
    rank: Option<u32>,
    excluded: Option<&WorkerId>,
) -> Option<&'a Arc<Worker>> {
    let possible = || {
        snapshot.workers.iter().filter(|worker| {
            matches!(worker.state, State::Ready(_)) && worker.serves(model) && Some(&worker.id) != excluded
        })
    };
    let owners = possible().filter(|worker| rank.is_none_or(|rank| worker.owns(rank)));
    least_loaded(owners).or_else(|| least_loaded(possible()))
}

fn least_loaded<'a>(workers: impl Iterator<Item = &'a Arc<Worker>>) -> Option<&'a Arc<Worker>> {
    workers.min_by_key(|worker| (worker.load.in_flight(), worker.id.clone()))
}

#[cfg(test)]
mod tests;
