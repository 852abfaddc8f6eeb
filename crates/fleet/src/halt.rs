//! A pause of ours: whoever begins one owes the engine that it goes on, and the keeper of its connection sees to that,
//! whatever becomes of the one who began it.

use std::sync::Arc;
use std::time::Duration;

use tito_engine::Control;
use tito_types::WorkerId;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

/// Between two tries to let an engine go on. vLLM refuses while a pause that was given up is still under way.
const RESUME_PAUSE: Duration = Duration::from_secs(1);

/// Whether an engine is paused by us. One per worker, for as long as the fleet lives: a connection that is lost meanwhile
/// changes nothing about it.
#[derive(Debug, Default)]
pub struct Halt(watch::Sender<State>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Not by us.
    #[default]
    Running,
    /// Somebody has it paused, or is about to.
    Held,
    /// Nobody needs the pause any more.
    Owed,
}

/// The right to pause an engine. Dropping it, at any moment, lets the engine go on.
#[derive(Debug)]
pub(crate) struct Holding(Arc<Halt>);

impl Halt {
    /// None while another pause of ours is not over.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Holding> {
        self.step(State::Running, State::Held).then(|| Holding(Arc::clone(self)))
    }

    /// Whether it was paused by us, should go on, and does not yet.
    pub fn owed(&self) -> bool {
        *self.0.borrow() == State::Owed
    }

    /// Resolves when no pause of ours is left.
    pub(crate) async fn over(&self) {
        let mut states = self.0.subscribe();
        let over = states.wait_for(|state| *state == State::Running).await;
        debug_assert!(over.is_ok(), "the sender is borrowed");
    }

    /// Lets the engine go on whenever that is owed, until it does. Never ends; whoever keeps a connection runs it.
    pub async fn settle(&self, worker: &WorkerId, control: &dyn Control) {
        let mut states = self.0.subscribe();
        loop {
            let owed = states.wait_for(|state| *state == State::Owed).await.is_ok();
            debug_assert!(owed, "the sender is borrowed");
            let mut failing = false;
            while let Err(error) = control.resume().await {
                if !std::mem::replace(&mut failing, true) {
                    warn!(%worker, %error, "not resumed after an order, trying again until it is");
                }
                sleep(RESUME_PAUSE).await;
            }
            self.step(State::Owed, State::Running);
            if failing {
                info!(%worker, "resumed after an order");
            }
        }
    }

    fn step(&self, from: State, to: State) -> bool {
        self.0.send_if_modified(|state| {
            let steps = *state == from;
            if steps {
                *state = to;
            }
            steps
        })
    }
}

impl Holding {
    /// Nothing was paused.
    pub(crate) fn unused(self) {
        self.0.step(State::Held, State::Running);
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.step(State::Held, State::Owed);
    }
}
