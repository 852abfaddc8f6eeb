//! Making one engine drop what it has cached, so that what we know of it is never ahead of it.

use std::time::Duration;

use tito_engine::Control;
use tito_types::EngineError;
use tokio::time::sleep;
use tracing::{error, info, warn};

use crate::{Blocks, Worker};

/// How often an engine is told to go on: one that was left paused would hold every request it has.
const RESUME_TRIES: u32 = 5;
/// Between two of them.
const RESUME_PAUSE: Duration = Duration::from_secs(1);

/// Why an engine's caches were not dropped, or what came of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClearError {
    /// It is not ready.
    #[error("it is {0}")]
    NotReady(String),
    /// Somebody has paused it; to resume it, or to pause it once more, is not ours.
    #[error("it is paused: whoever paused it can clear it with the pause, or resume it first")]
    Paused,
    /// It refused, failed or did not answer in time.
    #[error("{0}")]
    Engine(EngineError),
    /// It may be paused still.
    #[error("it was told to go on {RESUME_TRIES} times and may be paused still: {0}")]
    LeftPaused(EngineError),
}

impl Worker {
    /// Makes the engine drop every prefix, media item and encoder output it has cached. Requests in flight go on, and
    /// compute again what they had. What is known of its blocks is forgotten before it computes anything else.
    ///
    /// The engine is paused in between, for about as long as one step takes: who drops this half way leaves it so.
    pub async fn clear_cache(&self, blocks: &Blocks) -> Result<(), ClearError> {
        let Some(control) = &self.control else {
            let reason = self.state.reason().unwrap_or("gone");
            return Err(ClearError::NotReady(format!("{}: {reason}", self.state.word())));
        };
        if control.is_paused().await.map_err(ClearError::Engine)? {
            return Err(ClearError::Paused);
        }
        let before: Vec<_> = self.targets.iter().map(|target| target.clears()).collect();
        let cleared = control.pause_and_clear().await;
        if cleared.is_ok() {
            for (target, before) in self.targets.iter().zip(before) {
                target.cleared(blocks, before);
            }
            info!(worker = %self.id, "caches cleared");
        }
        // Also after a failure: it may have been the answer that was lost.
        resume(self, control.as_ref()).await?;
        cleared.map_err(ClearError::Engine)
    }
}

async fn resume(worker: &Worker, control: &dyn Control) -> Result<(), ClearError> {
    let mut tries = 1;
    loop {
        let Err(problem) = control.resume().await else { return Ok(()) };
        if tries == RESUME_TRIES {
            error!(worker = %worker.id, error = %problem, "may be paused still: resume it by hand");
            return Err(ClearError::LeftPaused(problem));
        }
        warn!(worker = %worker.id, error = %problem, tries, "not resumed, trying again");
        tries += 1;
        sleep(RESUME_PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
