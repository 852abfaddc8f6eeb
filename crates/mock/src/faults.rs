//! Faults on demand: what may go wrong, for which requests, and how often.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tonic::Code;

mod spec;
#[cfg(test)]
mod tests;

pub use spec::FaultError;

/// Faults that may be set at once.
pub const FAULTS_MAX: usize = 64;

/// One thing that goes wrong. A token count says after how many delivered output tokens; 0 is before anything.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The process dies: connections are reset, nothing listens any more, `run` returns.
    Die {
        /// Output tokens delivered before.
        at_token: u32,
    },
    /// The engine dies behind a living frontend: NOT_SERVING, and INTERNAL for every call.
    EngineDead {
        /// Output tokens delivered before.
        at_token: u32,
    },
    /// The engine makes no more tokens and says nothing.
    Stall {
        /// Output tokens delivered before.
        at_token: u32,
    },
    /// Tokens come no faster than this.
    Slow {
        /// Least time between two tokens.
        delay: Duration,
    },
    /// The call fails.
    Error {
        /// Output tokens delivered before; 0 is an immediate status.
        at_token: u32,
        /// The status.
        code: Code,
        /// Its message.
        message: String,
    },
    /// Connections are refused, and calls on living ones are UNAVAILABLE, while the fault is set.
    Refuse,
    /// NOT_SERVING is pushed, what runs goes on, new calls and connections are refused, while the fault is set.
    Drain,
    /// A frame is wrong.
    BadFrame {
        /// Output tokens delivered before.
        at_token: u32,
        /// How it is wrong.
        frame: BadFrame,
    },
    /// The log-prob of one token is not a finite number.
    Logprob {
        /// Output tokens before that token.
        at_token: u32,
        /// NaN or an infinity.
        value: f32,
    },
    /// The request ends early with reason ABORTED.
    Abort {
        /// Output tokens delivered before.
        at_token: u32,
    },
    /// A batch of KV events goes wrong on its way; replays still have it.
    KvFrame {
        /// The global rank; `None` is every one.
        rank: Option<u32>,
        /// First sequence number that it happens to.
        at_seq: u64,
        /// What happens.
        frame: FrameFault,
    },
    /// Batches of KV events are sent late, in their order; replays do not have them before.
    KvDelay {
        /// The global rank; `None` is every one.
        rank: Option<u32>,
        /// Least time between the output of a step and its batch.
        delay: Duration,
        /// Most time beyond that; how much of it is drawn per batch from the mock's seed.
        jitter: Duration,
    },
    /// Replays of KV events are answered late.
    KvReplayDelay {
        /// The global rank; `None` is every one.
        rank: Option<u32>,
        /// How late.
        delay: Duration,
    },
    /// Replays of KV events are not answered.
    KvReplaySilent {
        /// The global rank; `None` is every one.
        rank: Option<u32>,
    },
}

/// What happens to a batch of KV events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFault {
    /// It is not sent.
    Drop,
    /// It is sent twice.
    Duplicate,
    /// It changes places with the next one.
    Reorder,
    /// Some bits of it are flipped: it cannot be decoded.
    Corrupt,
    /// Its sequence number is cut to four bytes.
    TruncateSeq,
}

/// How a frame is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadFrame {
    /// Its bytes are no message.
    Malformed,
    /// `num_tokens` is one more than there are.
    TokenCount,
    /// The stream ends without `finish_info`.
    MissingFinish,
    /// `index` is not 0.
    Index,
}

impl Fault {
    /// Whether it is about KV events and not about requests.
    fn is_kv(&self) -> bool {
        matches!(
            self,
            Self::KvFrame { .. }
                | Self::KvDelay { .. }
                | Self::KvReplayDelay { .. }
                | Self::KvReplaySilent { .. }
        )
    }
}

/// A fault with the requests it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultSpec {
    /// What goes wrong.
    pub fault: Fault,
    /// Only for request ids that contain this. Not for [`Fault::Refuse`], [`Fault::Drain`] and KV events.
    pub request: Option<String>,
    /// For so many requests, batches or replays; `None` is all of them.
    pub count: Option<u32>,
}

impl FaultSpec {
    /// A fault for every request.
    pub fn new(fault: Fault) -> Self {
        Self { fault, request: None, count: None }
    }

    /// Parses one JSON object, as the control route takes it: `kind`, what the kind takes, and, except for `refuse`
    /// and `drain`, `count`; faults of requests also take `request` (a part of the request id).
    ///
    /// | kind | takes |
    /// |---|---|
    /// | `die`, `engine_dead`, `stall`, `abort` | `at_token` |
    /// | `slow` | `delay_ms` |
    /// | `error` | `at_token`, `code` (a gRPC code by name), `message` |
    /// | `bad_frame` | `at_token`, `frame`: `malformed`, `token_count`, `missing_finish`, `index` |
    /// | `logprob` | `at_token`, `value`: `nan`, `-inf`, `inf` |
    /// | `refuse`, `drain` | nothing |
    /// | `kv_frame` | `rank`, `at_seq`, `frame`: `drop`, `duplicate`, `reorder`, `corrupt`, `truncate_seq` |
    /// | `kv_delay` | `rank`, `delay_ms`, `jitter_ms` |
    /// | `kv_replay_delay` | `rank`, `delay_ms` |
    /// | `kv_replay_silent` | `rank` |
    pub fn parse(json: &str) -> Result<Self, FaultError> {
        spec::parse(json)
    }
}

/// A fault that is set.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveFault {
    /// Its number, for removal.
    pub id: u64,
    /// What and for whom; its count is what is left.
    pub spec: FaultSpec,
}

/// The faults of one mock.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    active: Mutex<Active>,
    /// So that a mock without faults takes no lock per request.
    set: AtomicUsize,
}

#[derive(Debug, Default)]
struct Active {
    faults: Vec<ActiveFault>,
    next_id: u64,
}

/// Whether the doors stand open, as the set faults say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Doors {
    pub(crate) refuse: bool,
    pub(crate) drain: bool,
}

impl Faults {
    pub(crate) fn add(&self, spec: FaultSpec) -> Result<u64, FaultError> {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if active.faults.len() >= FAULTS_MAX {
            return Err(FaultError::TooMany);
        }
        let id = active.next_id;
        active.next_id += 1;
        active.faults.push(ActiveFault { id, spec });
        self.set.store(active.faults.len(), Ordering::Release);
        Ok(id)
    }

    /// Removes one fault, or all of them.
    pub(crate) fn remove(&self, id: Option<u64>) {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.faults.retain(|fault| id.is_some_and(|id| fault.id != id));
        self.set.store(active.faults.len(), Ordering::Release);
    }

    pub(crate) fn list(&self) -> Vec<ActiveFault> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).faults.clone()
    }

    pub(crate) fn doors(&self) -> Doors {
        let faults = self.list();
        Doors {
            refuse: faults.iter().any(|fault| fault.spec.fault == Fault::Refuse),
            drain: faults.iter().any(|fault| fault.spec.fault == Fault::Drain),
        }
    }

    /// What goes wrong with a request. Counts go down, and a fault that has none left is gone.
    pub(crate) fn take(&self, request_id: &str) -> Effects {
        let mut effects = Effects::default();
        if self.set.load(Ordering::Acquire) == 0 {
            return effects;
        }
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        for fault in &mut active.faults {
            let spec = &mut fault.spec;
            if spec.fault.is_kv() {
                continue;
            }
            let named = spec.request.as_ref().is_none_or(|part| request_id.contains(part.as_str()));
            if !named || spec.count == Some(0) {
                continue;
            }
            effects.add(&spec.fault);
            spec.count = spec.count.map(|count| count - 1);
        }
        self.forget_spent(&mut active);
        effects
    }

    /// What happens to a batch of KV events: the first fault that was set for it.
    pub(crate) fn take_frame(&self, of_rank: u32, seq: u64) -> Option<FrameFault> {
        self.take_first(|fault| match fault {
            Fault::KvFrame { rank, at_seq, frame } if is_of(*rank, of_rank) && seq >= *at_seq => Some(*frame),
            _ => None,
        })
    }

    /// How late a batch of KV events is sent, and how much later at most: by the first fault that was set for its rank.
    pub(crate) fn take_delay(&self, of_rank: u32) -> Option<(Duration, Duration)> {
        self.take_first(|fault| match fault {
            Fault::KvDelay { rank, delay, jitter } if is_of(*rank, of_rank) => Some((*delay, *jitter)),
            _ => None,
        })
    }

    /// What happens to a replay: it is not answered if any fault says so, else it takes the first delay.
    pub(crate) fn take_replay(&self, of_rank: u32) -> ReplayEffect {
        let silent = self.take_first(|fault| match fault {
            Fault::KvReplaySilent { rank } if is_of(*rank, of_rank) => Some(()),
            _ => None,
        });
        let delay = self.take_first(|fault| match fault {
            Fault::KvReplayDelay { rank, delay } if is_of(*rank, of_rank) => Some(*delay),
            _ => None,
        });
        ReplayEffect { silent: silent.is_some(), delay: delay.unwrap_or_default() }
    }

    fn take_first<T>(&self, effect: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        if self.set.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = active.faults.iter_mut().filter(|fault| fault.spec.count != Some(0));
        let (fault, found) = left.find_map(|fault| effect(&fault.spec.fault).map(|found| (fault, found)))?;
        fault.spec.count = fault.spec.count.map(|count| count - 1);
        self.forget_spent(&mut active);
        Some(found)
    }

    fn forget_spent(&self, active: &mut Active) {
        active.faults.retain(|fault| fault.spec.count != Some(0));
        self.set.store(active.faults.len(), Ordering::Release);
    }
}

fn is_of(chosen: Option<u32>, rank: u32) -> bool {
    chosen.is_none_or(|chosen| chosen == rank)
}

/// What goes wrong with one replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReplayEffect {
    pub(crate) silent: bool,
    pub(crate) delay: Duration,
}

/// Everything that goes wrong with one call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Effects {
    /// The first thing that breaks off the call, with its token count.
    pub(crate) break_off: Option<(u32, BreakOff)>,
    pub(crate) stall_at: Option<u32>,
    pub(crate) pace: Duration,
    pub(crate) frame: Option<(u32, BadFrame)>,
    pub(crate) logprob: Option<(u32, f32)>,
}

/// How a call is broken off.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BreakOff {
    Die,
    EngineDead,
    Status(Code, String),
    Abort,
}

impl Effects {
    fn add(&mut self, fault: &Fault) {
        match fault {
            Fault::Die { at_token } => self.break_at(*at_token, BreakOff::Die),
            Fault::EngineDead { at_token } => self.break_at(*at_token, BreakOff::EngineDead),
            Fault::Error { at_token, code, message } => {
                self.break_at(*at_token, BreakOff::Status(*code, message.clone()));
            }
            Fault::Abort { at_token } => self.break_at(*at_token, BreakOff::Abort),
            Fault::Stall { at_token } => self.stall(*at_token),
            Fault::Slow { delay } => self.pace = self.pace.max(*delay),
            Fault::BadFrame { at_token, frame } => self.frame = Some((*at_token, *frame)),
            Fault::Logprob { at_token, value } => self.logprob = Some((*at_token, *value)),
            // These hold for all calls at once (see `Doors`), or for none.
            Fault::Refuse
            | Fault::Drain
            | Fault::KvFrame { .. }
            | Fault::KvDelay { .. }
            | Fault::KvReplayDelay { .. }
            | Fault::KvReplaySilent { .. } => {}
        }
    }

    /// The earliest break wins.
    pub(crate) fn break_at(&mut self, at_token: u32, how: BreakOff) {
        if self.break_off.as_ref().is_none_or(|(other, _)| at_token < *other) {
            self.break_off = Some((at_token, how));
        }
    }

    pub(crate) fn stall(&mut self, at_token: u32) {
        self.stall_at = Some(self.stall_at.map_or(at_token, |other| other.min(at_token)));
    }
}
