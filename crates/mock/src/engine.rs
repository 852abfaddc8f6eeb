//! One rank: the task that runs a simulation and hands its output to calls.
//!
//! Commands go into an inbox that never blocks its caller: its length is bounded by the calls that may be alive
//! (each one submits once and aborts at most once) plus the control calls, which are serialized.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tito_engine_sim::{Finish, PauseMode, RequestId, SimRequest, Stats, StepToken};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::journal::{AbortCause, JournalEntry};
use crate::kv::Origin;

mod run;

pub(crate) use run::EngineTask;

/// What the engine tells a call.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// New tokens.
    pub(crate) tokens: Vec<StepToken>,
    /// The end, if this is the last chunk.
    pub(crate) end: Option<End>,
    /// Prompt tokens that were not computed.
    pub(crate) cached_tokens: u32,
}

/// How the engine's part of a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As the simulation says.
    Finished(Finish),
    /// The engine is dead.
    Dead,
    /// The engine did not take the request.
    Refused,
}

/// How a call wants its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// In one chunk at the end.
    Whole,
    /// A chunk per step.
    Deltas,
}

/// A request with the place its output goes.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) request: SimRequest,
    /// What its blocks are told apart by in KV events.
    pub(crate) origin: Arc<Origin>,
    pub(crate) delivery: Delivery,
    pub(crate) entry: Arc<JournalEntry>,
    /// As long as the request's output: a send never waits.
    pub(crate) output: mpsc::Sender<Chunk>,
}

#[derive(Debug)]
pub(crate) enum Command {
    Submit(Box<Submission>),
    /// Ends a request and, when `answer` is set, tells its call so.
    Abort {
        id: RequestId,
        cause: AbortCause,
        answer: bool,
    },
    Pause {
        mode: PauseMode,
        clear_cache: bool,
        done: oneshot::Sender<()>,
    },
    Resume {
        done: oneshot::Sender<()>,
    },
    ResetCache {
        /// Also if requests run: they are preempted and computed again.
        running: bool,
        done: oneshot::Sender<bool>,
    },
    /// Fails every request, now and from now on.
    Die,
}

/// Commands that the task has not taken yet.
#[derive(Debug, Default)]
struct Inbox {
    closed: bool,
    commands: Vec<Command>,
}

/// The way to one rank.
#[derive(Debug)]
pub(crate) struct Engine {
    /// The global rank.
    pub(crate) rank: u32,
    inbox: Mutex<Inbox>,
    wake: Notify,
    /// Requests that calls have in flight here.
    in_flight: AtomicU32,
    requests: AtomicU64,
    stats: Mutex<Stats>,
    finished: Finished,
}

/// How many requests ended, by reason.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub(crate) stop: AtomicU64,
    pub(crate) length: AtomicU64,
    pub(crate) abort: AtomicU64,
    pub(crate) error: AtomicU64,
}

impl Engine {
    pub(crate) fn new(rank: u32) -> Self {
        Self {
            rank,
            inbox: Mutex::default(),
            wake: Notify::new(),
            in_flight: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            stats: Mutex::default(),
            finished: Finished::default(),
        }
    }

    /// A name for the next request on this rank.
    pub(crate) fn next_id(&self) -> RequestId {
        RequestId(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands a command over. Once the task is gone it is dropped, which its sender reads as a dead engine.
    pub(crate) fn send(&self, command: Command) {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if !inbox.closed {
            inbox.commands.push(command);
            self.wake.notify_one();
        }
    }

    /// Requests in flight, for choosing the least loaded rank.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts one more request in flight until the value is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// The simulation's counters after its last step.
    pub(crate) fn stats(&self) -> Stats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn finished(&self) -> &Finished {
        &self.finished
    }

    fn take_commands(&self, into: &mut Vec<Command>) {
        into.append(&mut self.inbox.lock().unwrap_or_else(PoisonError::into_inner).commands);
    }

    fn close(&self) {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        *inbox = Inbox { closed: true, commands: Vec::new() };
    }
}

/// One request in flight on a rank.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Engine>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
