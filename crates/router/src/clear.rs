//! Making engines drop what they have cached, when an operator says so.

use futures_util::future::join_all;
use tito_fleet::Worker;
use tito_types::{ClearReport, EngineError, WorkerId};
use tracing::{info, warn};

use crate::Route;

/// Workers that a refusal names.
const NAMES_MAX: usize = 64;

impl Route {
    /// Makes these workers, or all, drop what they have cached: prefixes on every tier, media, encoder outputs. Without
    /// `running` a worker with requests in flight from here is left alone; with it they go on, and what they had is
    /// computed again. One report per worker, by id. Refused as a whole when a name is unknown.
    ///
    /// An engine whose turn is dropped half way goes on, and its blocks are doubted.
    pub async fn clear_caches(
        &self,
        wanted: &[WorkerId],
        running: bool,
    ) -> Result<Vec<ClearReport>, EngineError> {
        let view = self.shared.sync();
        let workers = &view.snapshot().workers;
        if let Some(unknown) = wanted.iter().find(|id| !workers.iter().any(|worker| worker.id == **id)) {
            let valid: Vec<_> = workers.iter().take(NAMES_MAX).map(|worker| worker.id.as_str()).collect();
            let message = format!("no worker is called {unknown}; valid: {}", valid.join(", "));
            return Err(EngineError::Invalid { param: "worker".to_owned(), message });
        }
        let chosen = workers.iter().filter(|worker| wanted.is_empty() || wanted.contains(&worker.id));
        Ok(join_all(chosen.map(|worker| self.clear(worker, running))).await)
    }

    async fn clear(&self, worker: &Worker, running: bool) -> ClearReport {
        let report = |error| ClearReport { worker: worker.id.clone(), error };
        let in_flight = self.in_flight(worker);
        if !running && in_flight > 0 {
            return report(Some(format!("its blocks are held; continuations in flight: {in_flight}")));
        }
        match worker.clear_cache(&self.shared.blocks, || self.forget_expected(worker)).await {
            Ok(()) => {
                info!(worker = %worker.id, "caches cleared");
                report(None)
            }
            Err(error) => {
                warn!(worker = %worker.id, %error, "caches not cleared");
                report(Some(error.to_string()))
            }
        }
    }

    /// Continuations that this process has sent there and not seen end.
    fn in_flight(&self, worker: &Worker) -> u64 {
        let mut desk = self.shared.desk();
        let view = self.shared.view(&mut desk);
        let places = worker.targets.iter().filter_map(|target| view.places.get(&target.id));
        places.map(|place| desk.board.load(place.slot).continuations).sum()
    }

    /// Prompts that were expected there are gone as well.
    fn forget_expected(&self, worker: &Worker) {
        let mut desk = self.shared.desk();
        let view = self.shared.view(&mut desk);
        for target in &worker.targets {
            if let Some(place) = view.places.get(&target.id) {
                desk.board.forget_expected(place.slot);
            }
        }
    }
}
