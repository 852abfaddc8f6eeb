//! The stages of the way out, and what moves a process from one to the next.
//!
//! It must not know what each stage means to whom: components watch the stage and act on it.

use std::future;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tracing::{info, warn};

/// How long to stay reachable but unready, so that load balancers look elsewhere first.
pub const UNREADY: Duration = Duration::from_secs(5);
/// How long requests in flight may take to finish.
pub const DRAIN: Duration = Duration::from_secs(60);
/// Triggers that are remembered while a stage begins; there are three transitions (triggers).
const TRIGGERS_MAX: usize = 4;

/// Where the process is on its way out. Stages are only ever left forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Normal service.
    Serving,
    /// Readiness fails, everything else works.
    Unready,
    /// New work is refused, work in flight finishes.
    Draining,
    /// What is left is dropped.
    Forced,
}

/// How long the stages last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownConfig {
    /// From unready to draining; [`UNREADY`] by default.
    pub unready: Duration,
    /// From draining to forced; [`DRAIN`] by default.
    pub drain: Duration,
}

impl ShutdownConfig {
    /// The loop that moves the stages, the view of them, and the way to start it.
    pub fn build(self) -> (Sequence, Shutdown, Trigger) {
        let (trigger, triggers) = mpsc::channel(TRIGGERS_MAX);
        let (stage, view) = watch::channel(Stage::Serving);
        (Sequence { config: self, triggers, stage }, Shutdown(view), Trigger(trigger))
    }
}

/// Starts the shutdown; once it has started, skips ahead by one stage.
#[derive(Debug, Clone)]
pub struct Trigger(mpsc::Sender<&'static str>);

impl Trigger {
    /// `cause` is for the log. Never blocks; more calls than there are stages change nothing.
    pub fn fire(&self, cause: &'static str) {
        // A full queue holds enough triggers to reach the last stage already.
        let _ = self.0.try_send(cause);
    }
}

/// A view of the stage, cheap to clone.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<Stage>);

impl Shutdown {
    /// The stage now.
    pub fn stage(&self) -> Stage {
        *self.0.borrow()
    }

    /// Resolves once the stage is `stage` or a later one. Cancel-safe.
    pub async fn reached(&self, stage: Stage) {
        let mut view = self.0.clone();
        if view.wait_for(|now| *now >= stage).await.is_err() {
            // The sequence is gone with the process that ran it: no further stage will come.
            future::pending::<()>().await;
        }
    }
}

/// Moves through the stages, by trigger or by time.
#[derive(Debug)]
pub struct Sequence {
    config: ShutdownConfig,
    triggers: mpsc::Receiver<&'static str>,
    stage: watch::Sender<Stage>,
}

impl Sequence {
    /// Runs until the last stage is reached, or until nobody can trigger it any more.
    pub async fn run(mut self) {
        let Some(cause) = self.triggers.recv().await else { return };
        info!(cause, unready_ms = self.config.unready.as_millis(), "shutdown begins: unready");
        self.stage.send_replace(Stage::Unready);
        self.wait(self.config.unready).await;
        info!(drain_ms = self.config.drain.as_millis(), "draining: new work is refused");
        self.stage.send_replace(Stage::Draining);
        self.wait(self.config.drain).await;
        warn!("drain ends: what is in flight is dropped");
        self.stage.send_replace(Stage::Forced);
    }

    async fn wait(&mut self, limit: Duration) {
        tokio::select! {
            () = sleep(limit) => {}
            Some(cause) = self.triggers.recv() => info!(cause, "skipping ahead"),
        }
    }
}

#[cfg(test)]
mod tests;
