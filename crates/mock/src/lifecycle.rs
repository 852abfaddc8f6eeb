//! Whether the mock lives, listens and serves, and how each of these ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a dying process keeps its connections, so that what it has written leaves first.
pub(crate) const DEATH_FLUSH: Duration = Duration::from_millis(5);

/// The states of one mock that end or change while it runs.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    /// The process is gone: every connection is reset.
    pub(crate) kill: CancellationToken,
    /// Somebody asked for an orderly end.
    pub(crate) stop: CancellationToken,
    /// No new connections.
    listening: watch::Sender<bool>,
    /// What Health says.
    serving: watch::Sender<bool>,
    dead: AtomicBool,
    draining: AtomicBool,
    dying: CancellationToken,
}

impl Lifecycle {
    pub(crate) fn new() -> Self {
        Self {
            kill: CancellationToken::new(),
            stop: CancellationToken::new(),
            listening: watch::Sender::new(true),
            serving: watch::Sender::new(true),
            dead: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            dying: CancellationToken::new(),
        }
    }

    pub(crate) fn listening(&self) -> watch::Receiver<bool> {
        self.listening.subscribe()
    }

    pub(crate) fn serving(&self) -> watch::Receiver<bool> {
        self.serving.subscribe()
    }

    /// Whether the engine is dead behind a living frontend.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Whether new calls are refused.
    pub(crate) fn is_closed(&self) -> bool {
        self.draining.load(Ordering::Acquire) || self.stop.is_cancelled() || !*self.listening.borrow()
    }

    /// Opens or closes the doors as the set faults say.
    pub(crate) fn set_doors(&self, refuse: bool, drain: bool) {
        self.draining.store(drain, Ordering::Release);
        let listening = !(refuse || drain);
        self.listening.send_if_modified(|now| std::mem::replace(now, listening) != listening);
        self.refresh();
    }

    /// The engine is dead from now on.
    pub(crate) fn engine_died(&self) {
        self.dead.store(true, Ordering::Release);
        self.refresh();
    }

    /// Pushes NOT_SERVING before the end.
    pub(crate) fn begin_stop(&self) {
        self.stop.cancel();
        self.refresh();
    }

    /// Resets everything as soon as what is written has left.
    pub(crate) fn die(&self) {
        self.dying.cancel();
    }

    /// Returns when the process is gone: at once when it was killed, after a moment when it died.
    pub(crate) async fn gone(&self) {
        let died = async {
            self.dying.cancelled().await;
            tokio::time::sleep(DEATH_FLUSH).await;
        };
        tokio::select! {
            () = self.kill.cancelled() => {}
            () = died => {}
        }
    }

    fn refresh(&self) {
        let serving = !(self.is_dead() || self.draining.load(Ordering::Acquire) || self.stop.is_cancelled());
        self.serving.send_if_modified(|now| std::mem::replace(now, serving) != serving);
    }
}
