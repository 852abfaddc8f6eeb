//! Where every task begins, with a name, an owner and a policy for its failure.
//!
//! It must not know what tasks do.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures_util::FutureExt;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use crate::Trigger;
use crate::metrics::TaskMetrics;

/// What the failure of a task means for the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The process cannot serve without it: shut down in order, and exit with a failure.
    Stop,
    /// Log it; everything else goes on.
    Log,
}

/// The one place where tasks begin. Whoever holds it waits for them with [`Tasks::stop`].
#[derive(Debug, Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    trigger: Trigger,
    failed: Arc<AtomicBool>,
    metrics: TaskMetrics,
}

impl Tasks {
    /// Task counts go to `registry`; the failure of a task that must not fail pulls `trigger`.
    pub fn new(trigger: Trigger, registry: &mut Registry) -> Self {
        Self {
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            trigger,
            failed: Arc::default(),
            metrics: TaskMetrics::register(registry),
        }
    }

    /// Starts a task that lives as long as its component. It is dropped, at whatever it awaits, by [`Tasks::stop`].
    ///
    /// An error or a panic is logged and counted, then `on_error` decides. A panic never goes unnoticed.
    pub fn spawn<F>(&self, name: &'static str, on_error: OnError, task: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let tasks = self.clone();
        self.start(async move {
            let ended = tokio::select! {
                biased;
                ended = AssertUnwindSafe(task).catch_unwind() => Some(ended),
                () = tasks.stop.cancelled() => None,
            };
            let failed = match ended {
                None | Some(Ok(Ok(()))) => false,
                Some(Ok(Err(error))) => {
                    tasks.metrics.failures.inc();
                    error!(task = name, error = format!("{error:#}"), "task failed");
                    true
                }
                Some(Err(panic)) => {
                    tasks.report_panic(name, panic.as_ref());
                    true
                }
            };
            if failed && on_error == OnError::Stop {
                tasks.failed.store(true, Ordering::Relaxed);
                tasks.trigger.fire("a task failed");
            }
        });
    }

    /// Starts a short-lived task whose result belongs to whoever asked for it. Nothing cancels it but its own logic.
    ///
    /// Cheap enough for one per request. A panic is counted and logged here, and reaches the owner as a join error.
    pub fn spawn_owned<F>(&self, name: &'static str, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let watched = PanicWatch { name, metrics: self.metrics.clone() };
        self.start(async move {
            let _watched = watched;
            task.await
        })
    }

    /// Runs work that would hold a reactor thread for too long. It cannot be cancelled once it has begun.
    ///
    /// The caller bounds how many run at a time. A panic is counted and logged as for [`Tasks::spawn_owned`].
    pub fn spawn_blocking<T>(
        &self,
        name: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T>
    where
        T: Send + 'static,
    {
        let watched = PanicWatch { name, metrics: self.metrics.clone() };
        self.tracker.spawn_blocking(move || {
            let _watched = watched;
            work()
        })
    }

    /// Counts and logs a panic that its owner caught itself.
    pub fn report_panic(&self, name: &'static str, panic: &(dyn Any + Send)) {
        self.metrics.panics.inc();
        error!(task = name, panic = panic_text(panic), "task panicked");
    }

    /// Whether a task that must not fail has failed: the process exits with a failure.
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Drops the long-lived tasks where they stand and waits until every task has ended.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where tasks begin")]
    fn start<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        tokio::spawn(self.tracker.track_future(task))
    }
}

/// Dropped while its thread unwinds, it knows that the task panicked.
struct PanicWatch {
    name: &'static str,
    metrics: TaskMetrics,
}

impl Drop for PanicWatch {
    fn drop(&mut self) {
        if thread::panicking() {
            self.metrics.panics.inc();
            error!(task = self.name, "task panicked");
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests;
