//! Making one engine drop what it has cached, so that what we know of it is never ahead of it.

use std::time::Duration;

use tito_types::EngineError;
use tokio::time::timeout;

use crate::{Blocks, Whose, Worker};

/// How long an order waits for the one before it to be over, and for the engine to go on. Its keeper tells it to for as
/// long as it takes.
const RESUME_WITHIN: Duration = Duration::from_secs(10);

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
    /// Another order has it paused, or had, and it has not gone on.
    #[error("another order has paused it, and it has not gone on yet")]
    Halted,
    /// It may be paused still.
    #[error("it did not go on within {RESUME_WITHIN:?} after the order; it is told to until it does")]
    LeftPaused,
}

impl Worker {
    /// Makes the engine drop every prefix, media item and encoder output it has cached. Requests in flight go on, and
    /// compute again what they had. What is known of its blocks is forgotten, and `forgotten` called, before it computes
    /// anything else; also when nobody knows whether it did.
    ///
    /// The engine is paused in between, for about as long as one step takes. It goes on even if this is dropped, and its
    /// blocks are then doubted.
    pub async fn clear_cache(
        &self,
        blocks: &Blocks,
        forgotten: impl FnOnce() + Send,
    ) -> Result<(), ClearError> {
        let (Some(control), Some(info)) = (&self.control, &self.info) else {
            let reason = self.state.reason().unwrap_or("gone");
            return Err(ClearError::NotReady(format!("{}: {reason}", self.state.word())));
        };
        let whose = Whose::of(info, &self.targets);
        let begun = timeout(RESUME_WITHIN, self.halt.begin(&whose)).await;
        let holding = begun.map_err(|_| ClearError::Halted)?;
        let obstacle = match control.is_paused().await {
            Ok(false) => None,
            Ok(true) => Some(ClearError::Paused),
            Err(error) => Some(ClearError::Engine(error)),
        };
        if let Some(obstacle) = obstacle {
            holding.unused();
            return Err(obstacle);
        }
        let cleared = control.pause_and_clear().await;
        match &cleared {
            Ok(()) => self.targets.iter().for_each(|target| target.cleared(blocks)),
            Err(error) if refused(error) => {
                holding.unused();
                return cleared.map_err(ClearError::Engine);
            }
            Err(_) => self.targets.iter().for_each(|target| target.doubted(blocks)),
        }
        forgotten();
        // Also after a failure: it may have been the answer that was lost.
        let number = holding.number;
        holding.booked();
        let over = timeout(RESUME_WITHIN, self.halt.over(number)).await;
        cleared.map_err(ClearError::Engine)?;
        over.map_err(|_| ClearError::LeftPaused)
    }
}

/// Whether the engine turned the order down before it did anything.
fn refused(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused(_) | EngineError::Unsupported(_))
}

#[cfg(test)]
mod tests;
