use std::sync::Arc;

use tito_fleet::{Snapshot, State, Worker};
use tito_types::WorkerId;

/// The ready worker that serves `model` with the least in flight; ties break by id, not by luck.
pub fn choose<'a>(
    snapshot: &'a Snapshot,
    model: &str,
    excluded: Option<&WorkerId>,
) -> Option<&'a Arc<Worker>> {
    let possible = |worker: &&Arc<Worker>| {
        matches!(worker.state, State::Ready(_)) && worker.serves(model) && Some(&worker.id) != excluded
    };
    snapshot.workers.iter().filter(possible).min_by_key(|worker| (worker.load.in_flight(), worker.id.clone()))
}

#[cfg(test)]
mod tests;
