//! Making one engine drop what it has cached, so that what we know of it is never ahead of it.

use std::time::Duration;

use tito_engine::Control;
use tito_types::EngineError;
use tokio::time::{Instant, sleep};
use tracing::{error, warn};

use crate::{Blocks, Worker};

/// How long an engine is told to go on: longer than a pause may take that was given up, because vLLM refuses to go on while
/// one is under way. An engine that was left paused would hold every request it has.
const RESUME_WITHIN: Duration = Duration::from_secs(90);
/// Between two of those tries.
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
    #[error("it was told to go on for {RESUME_WITHIN:?} and may be paused still: {0}")]
    LeftPaused(EngineError),
}

impl Worker {
    /// Makes the engine drop every prefix, media item and encoder output it has cached. Requests in flight go on, and
    /// compute again what they had. What is known of its blocks is forgotten, and `forgotten` called, before it computes
    /// anything else; also when nobody knows whether it did.
    ///
    /// The engine is paused in between, for about as long as one step takes: who drops this half way leaves it so.
    pub async fn clear_cache(
        &self,
        blocks: &Blocks,
        forgotten: impl FnOnce() + Send,
    ) -> Result<(), ClearError> {
        let Some(control) = &self.control else {
            let reason = self.state.reason().unwrap_or("gone");
            return Err(ClearError::NotReady(format!("{}: {reason}", self.state.word())));
        };
        if control.is_paused().await.map_err(ClearError::Engine)? {
            return Err(ClearError::Paused);
        }
        let cleared = control.pause_and_clear().await;
        match &cleared {
            Ok(()) => self.targets.iter().for_each(|target| target.cleared(blocks)),
            Err(error) if refused(error) => {}
            Err(_) => self.targets.iter().for_each(|target| target.doubted(blocks)),
        }
        if !cleared.as_ref().is_err_and(refused) {
            forgotten();
        }
        // Also after a failure: it may have been the answer that was lost.
        resume(self, control.as_ref()).await?;
        cleared.map_err(ClearError::Engine)
    }
}

/// Whether the engine turned the order down before it did anything.
fn refused(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused(_) | EngineError::Unsupported(_))
}

async fn resume(worker: &Worker, control: &dyn Control) -> Result<(), ClearError> {
    let started = Instant::now();
    let mut first = true;
    loop {
        let Err(problem) = control.resume().await else { return Ok(()) };
        if started.elapsed() >= RESUME_WITHIN {
            error!(worker = %worker.id, error = %problem, "may be paused still: resume it by hand");
            return Err(ClearError::LeftPaused(problem));
        }
        if std::mem::take(&mut first) {
            warn!(worker = %worker.id, error = %problem, "not resumed, trying again");
        }
        sleep(RESUME_PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
