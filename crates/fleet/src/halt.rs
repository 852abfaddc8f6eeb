//! A pause of ours: whoever begins one owes the engine that it goes on, and the keeper of its connection sees to that,
//! whatever becomes of the one who began it.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tito_engine::Control;
use tito_types::{EngineInfo, WorkerId};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{Target, TargetId};

/// Between two tries to let an engine go on. vLLM refuses while a pause that was given up is still under way.
const RESUME_PAUSE: Duration = Duration::from_secs(1);

/// Whether an engine is paused by us. One per worker, for as long as the fleet lives: a connection that is lost meanwhile
/// changes nothing about it.
#[derive(Debug, Default)]
pub struct Halt {
    state: watch::Sender<State>,
    /// 1 while there is a pause.
    gauge: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct State {
    /// Pauses so far.
    number: u64,
    pause: Pause,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Pause {
    /// None of ours.
    #[default]
    Over,
    /// Somebody has it paused, or is about to.
    Held(Whose),
    /// Nobody needs the pause any more. What became of the engine's caches is booked, or is not.
    Owed { whose: Whose, booked: bool },
}

/// What was paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whose {
    /// The process: another one was never paused.
    pub instance: String,
    /// Its first target: another connection has others.
    pub target: Option<TargetId>,
}

impl Whose {
    /// Of an engine and its ranks, as one connection has them.
    pub fn of(info: &EngineInfo, targets: &[Arc<Target>]) -> Self {
        Self { instance: info.instance_id.clone(), target: targets.first().map(|target| target.id) }
    }
}

/// The right to pause an engine. Dropping it, at any moment, lets the engine go on.
#[derive(Debug)]
pub(crate) struct Holding {
    halt: Arc<Halt>,
    pub(crate) number: u64,
    used: bool,
    booked: bool,
}

impl Halt {
    /// One that shows in `gauge` whether there is a pause.
    pub(crate) fn with_gauge(gauge: Gauge) -> Self {
        Self { gauge, ..Self::default() }
    }

    /// Waits until no other pause of ours is left, and begins one.
    pub(crate) async fn begin(self: &Arc<Self>, whose: &Whose) -> Holding {
        loop {
            let mut number = 0;
            let begun = self.change(|state| {
                let free = state.pause == Pause::Over;
                if free {
                    *state = State { number: state.number + 1, pause: Pause::Held(whose.clone()) };
                    number = state.number;
                }
                free
            });
            if begun {
                return Holding { halt: Arc::clone(self), number, used: true, booked: false };
            }
            self.idle().await;
        }
    }

    /// Whether it is paused by us.
    pub fn halted(&self) -> bool {
        self.state.borrow().pause != Pause::Over
    }

    /// Resolves when no pause of ours is left.
    pub async fn idle(&self) {
        self.wait(|state| state.pause == Pause::Over).await;
    }

    /// Resolves when that pause is no more.
    pub(crate) async fn over(&self, number: u64) {
        self.wait(|state| state.number != number || state.pause == Pause::Over).await;
    }

    /// Lets the engine go on whenever that is owed, until it does. Before that, `doubt` is called where what became of
    /// its caches is not booked on this connection. Never ends; whoever keeps a connection to `now` runs it.
    pub async fn settle(&self, worker: &WorkerId, now: &Whose, control: &dyn Control, doubt: impl Fn()) {
        loop {
            let State { number, pause } = self.wait(|state| matches!(state.pause, Pause::Owed { .. })).await;
            if let Pause::Owed { whose, booked } = pause
                && whose.instance == now.instance
            {
                if !booked || whose.target != now.target {
                    doubt();
                }
                resume(worker, control).await;
            }
            self.change(|state| {
                let ours = state.number == number;
                if ours {
                    state.pause = Pause::Over;
                }
                ours
            });
        }
    }

    /// Does what `change` does to the state, which says whether that is anything.
    fn change(&self, change: impl FnOnce(&mut State) -> bool) -> bool {
        self.state.send_if_modified(|state| {
            let changed = change(state);
            self.gauge.set(i64::from(state.pause != Pause::Over));
            changed
        })
    }

    async fn wait(&self, until: impl FnMut(&State) -> bool) -> State {
        let mut states = self.state.subscribe();
        let state = states.wait_for(until).await;
        state.expect("the sender is borrowed").clone()
    }
}

async fn resume(worker: &WorkerId, control: &dyn Control) {
    let mut failing = false;
    while let Err(error) = control.resume().await {
        if !std::mem::replace(&mut failing, true) {
            warn!(%worker, %error, "not resumed after an order, trying again until it is");
        }
        sleep(RESUME_PAUSE).await;
    }
    if failing {
        info!(%worker, "resumed after an order");
    }
}

impl Holding {
    /// Nothing was paused.
    pub(crate) fn unused(mut self) {
        self.used = false;
    }

    /// What became of the engine's caches is known where it matters.
    pub(crate) fn booked(mut self) {
        self.booked = true;
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let (number, used, booked) = (self.number, self.used, self.booked);
        self.halt.change(|state| {
            let Pause::Held(whose) = &state.pause else { return false };
            debug_assert_eq!(state.number, number, "one is held at a time");
            state.pause = if used { Pause::Owed { whose: whose.clone(), booked } } else { Pause::Over };
            true
        });
    }
}

#[cfg(test)]
mod tests;
