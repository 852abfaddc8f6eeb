//! What one connection's parts know of each other: its socket, its requests, its timers.
//!
//! It must not know routes or replies: it counts exchanges and says how long to wait.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Version;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// What one connection's parts know of each other: its socket, its requests, its timers.
#[derive(Debug)]
pub(crate) struct Client {
    accepted: Instant,
    in_flight: AtomicUsize,
    /// Milliseconds after `accepted` when the last request ended.
    idle_since_ms: AtomicU64,
    body_unread: AtomicBool,
    /// Whether it speaks HTTP/1: one request after the other.
    in_turn: AtomicBool,
    busy: TaskTracker,
    /// Held from the first request to the end of the connection.
    token: OnceLock<TaskTrackerToken>,
}

impl Client {
    pub(super) fn new(busy: TaskTracker) -> Self {
        Self {
            accepted: Instant::now(),
            in_flight: AtomicUsize::new(0),
            idle_since_ms: AtomicU64::new(0),
            body_unread: AtomicBool::new(false),
            in_turn: AtomicBool::new(false),
            busy,
            token: OnceLock::new(),
        }
    }

    /// A request begins; it ends when its reply's body is dropped.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> Exchange {
        self.in_turn.store(version < Version::HTTP_2, Ordering::Relaxed);
        self.token.get_or_init(|| self.busy.token());
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Exchange(Arc::clone(self))
    }

    /// Whether it has sent a request.
    pub(super) fn has_asked(&self) -> bool {
        self.token.get().is_some()
    }

    /// Whether a reply is owed.
    pub(super) fn waiting(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// Whether nothing that arrives now is of use before the reply that is owed has been sent.
    pub(super) fn runs_ahead(&self) -> bool {
        self.in_turn.load(Ordering::Relaxed) && !self.must_linger()
    }

    /// Whether part of a request's body may still be on its way.
    pub(crate) fn body_unread(&self, unread: bool) {
        self.body_unread.store(unread, Ordering::Relaxed);
    }

    /// Whether closing now could destroy a reply before the client has read it.
    pub(super) fn must_linger(&self) -> bool {
        self.body_unread.load(Ordering::Relaxed)
    }

    /// How long the connection may go on without a request, or that it may no longer.
    pub(super) fn patience(&self, header: Duration, idle: Duration) -> Patience {
        if !self.has_asked() {
            return Patience::new(self.accepted + header, Overdue::FirstRequest);
        }
        if self.waiting() {
            return Patience::Until(Instant::now() + idle);
        }
        let idle_since = Duration::from_millis(self.idle_since_ms.load(Ordering::Relaxed));
        Patience::new(self.accepted + idle_since + idle, Overdue::Idle)
    }
}

/// Whether to wait on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Look again then.
    Until(Instant),
    /// It is over.
    Over(Overdue),
}

/// What did not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The first request on the connection.
    FirstRequest,
    /// The next one.
    Idle,
}

impl Patience {
    fn new(deadline: Instant, overdue: Overdue) -> Self {
        if Instant::now() >= deadline { Self::Over(overdue) } else { Self::Until(deadline) }
    }
}

/// One request in flight on a connection.
#[derive(Debug)]
pub(super) struct Exchange(Arc<Client>);

impl Drop for Exchange {
    fn drop(&mut self) {
        let Client { accepted, idle_since_ms, in_flight, .. } = &*self.0;
        idle_since_ms.store(accepted.elapsed().as_millis() as u64, Ordering::Relaxed);
        in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
