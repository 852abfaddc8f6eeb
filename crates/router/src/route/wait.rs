//! Waiting for a place while every target is at its limit: a bounded line with a deadline.

use std::sync::Arc;

use tito_policy::Refusal;
use tito_types::EngineError;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use crate::RouteConfig;
use crate::desk::{Arrival, Desk, Line};

/// One request's way through the line. Letting go at any moment leaves the line in order.
pub(super) struct Waiting {
    shared: Arc<Shared>,
    line: Line,
    state: State,
    /// Given when it first stands in the line, and kept.
    arrived: Option<Arrival>,
    deadline: Option<Instant>,
}

enum State {
    /// Not in the line.
    Outside,
    /// In the line until this resolves.
    Standing(oneshot::Receiver<()>),
    /// It is its turn.
    Called,
}

impl Waiting {
    pub(super) fn new(shared: &Arc<Shared>, line: Line) -> Self {
        Self { shared: Arc::clone(shared), line, state: State::Outside, arrived: None, deadline: None }
    }

    /// Whether nobody would be overtaken.
    pub(super) fn may_choose(&self, desk: &Desk) -> bool {
        matches!(self.state, State::Called) || !desk.queued(&self.line)
    }

    /// Stands in the line: at its end, or where it stood before it was called in vain. Refused when too many do.
    pub(super) fn queue(&mut self, desk: &mut Desk, config: &RouteConfig) -> Result<(), Refusal> {
        self.state = State::Outside;
        let place = desk.queue(&self.line, self.arrived, config.queue_requests_max);
        let (arrival, called) = place.ok_or(Refusal::Full)?;
        self.arrived = Some(arrival);
        self.state = State::Standing(called);
        Ok(())
    }

    /// Resolves when it is its turn, or when it stood in the line for too long.
    pub(super) async fn called(&mut self) -> Result<(), EngineError> {
        let State::Standing(called) = &mut self.state else { return Ok(()) };
        let limit = self.shared.config.queue_timeout;
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + limit);
        let mut fleet = self.shared.fleet.clone();
        fleet.mark_unchanged();
        loop {
            // A fleet that changed calls everybody: somebody may serve now what nobody could before.
            self.shared.sync();
            let news = async {
                if fleet.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                _ = &mut *called => break,
                () = news => {}
                () = sleep_until(deadline) => {
                    let message = format!("every target stayed at its limit for {limit:?}");
                    return Err(EngineError::Overloaded(message));
                }
            }
        }
        self.state = State::Called;
        Ok(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Most requests never stood in a line.
        let Some(arrival) = self.arrived else { return };
        let mut desk = self.shared.desk();
        let called = match &mut self.state {
            State::Outside => false,
            State::Standing(called) => called.try_recv().is_ok(),
            State::Called => true,
        };
        // Whoever was called has taken a place and may have left another, or leaves with none taken.
        if called {
            desk.pass_on(&self.line);
        } else {
            desk.leave(&self.line, arrival);
        }
    }
}
