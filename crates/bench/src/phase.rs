//! The two loops that send requests.
//!
//! Both end by waiting for what is in flight, which the request timeout bounds. Dropping a loop at any point drops
//! its requests and closes their connections.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::caller::Caller;
use crate::config::{ReportConfig, Stop};
use crate::connection::Transport;
use crate::export::Ended;
use crate::pacer::Pacer;
use crate::progress::Progress;
use crate::report::Clock;
use crate::stats::{Start, Stats};
use crate::workload::Body;

/// One stretch of requests with statistics of its own.
pub(crate) struct Phase<T> {
    caller: Arc<Caller<T>>,
    /// Name under which each request is passed to the progress; none in the warm-up.
    target: Option<String>,
    begin: Instant,
    stats: Mutex<Stats>,
    progress: Arc<dyn Progress>,
    /// Number of the next request.
    next: AtomicU64,
    /// Number of the next session.
    sessions: AtomicU64,
    /// Failures still allowed before nothing more is sent.
    failures_left: AtomicU64,
}

/// What ends the sending.
#[derive(Debug, Clone, Copy)]
struct Until {
    /// Requests in all, turns of sessions included.
    requests_max: u64,
    deadline: Option<Instant>,
}

/// How a client waits between the turns of a session.
struct Thinking {
    /// What the times of later turns are counted from.
    clock: Clock,
    pacer: Pacer,
}

/// A right reply, as far as a session goes on from it.
struct Answer {
    ids: Vec<u32>,
    ended: Instant,
}

impl<T: Transport> Phase<T> {
    /// A phase that begins now. With a target's name, each of its requests is passed to the progress under that name.
    pub(crate) fn new(
        caller: &Arc<Caller<T>>,
        progress: &Arc<dyn Progress>,
        config: &ReportConfig,
        target: Option<String>,
    ) -> Arc<Self> {
        let begin = Instant::now();
        Arc::new(Self {
            caller: Arc::clone(caller),
            target,
            begin,
            stats: Mutex::new(Stats::new(begin, config)),
            progress: Arc::clone(progress),
            next: AtomicU64::new(0),
            sessions: AtomicU64::new(0),
            failures_left: AtomicU64::new(caller.limits.failures_max),
        })
    }

    /// True when so many requests failed that the phase gave up.
    pub(crate) fn gave_up(&self) -> bool {
        self.failures_left.load(Relaxed) == 0
    }

    /// True when a request got a right reply.
    pub(crate) fn was_answered(&self) -> bool {
        self.stats().succeeded > 0
    }

    /// Prompts of the workload that were begun: those of first turns where requests are turns of sessions.
    pub(crate) fn prompts(&self) -> u64 {
        if self.caller.workload.has_sessions() {
            return self.sessions.load(Relaxed);
        }
        let stats = self.stats();
        stats.succeeded + stats.failed
    }

    /// What was measured; call it when the loop has ended.
    pub(crate) fn into_stats(self: Arc<Self>) -> Stats {
        let phase = Arc::into_inner(self).expect("the loop has ended, nothing else holds the phase");
        phase.stats.into_inner().expect("no holder panics")
    }

    /// `concurrency` clients, each sending its next request when its last reply is complete, or beginning its next
    /// session when its last one has ended.
    pub(crate) async fn closed_loop(
        self: &Arc<Self>,
        concurrency: u32,
        stop: Stop,
        pacer: &Pacer,
    ) -> io::Result<()> {
        let (requests_max, deadline) = match stop {
            Stop::Requests(requests) => (requests, None),
            Stop::Time(time) => (u64::MAX, Some(self.begin + time)),
        };
        let until = Until { requests_max, deadline };
        let starting = Arc::new(AtomicU32::new(concurrency));
        let mut clients = JoinSet::new();
        for _ in 0..concurrency {
            let (phase, starting) = (Arc::clone(self), Arc::clone(&starting));
            let thinking = self.thinking(Clock::ServiceTime, pacer)?;
            clients.spawn(async move {
                let mut first = true;
                let mut result = Ok(());
                while result.is_ok()
                    && let Some(number) = phase.take_number(until)
                {
                    let opens = std::mem::take(&mut first);
                    let started = || {
                        if opens && starting.fetch_sub(1, Relaxed) == 1 {
                            phase.stats().steady.open(Instant::now());
                        }
                    };
                    result = phase.session(number, Instant::now(), until, thinking.as_ref(), started).await;
                }
                phase.stats().steady.close(Instant::now());
                result
            });
        }
        while let Some(joined) = clients.join_next().await {
            settle(joined)?;
        }
        Ok(())
    }

    /// Sends each request, or begins each session, when it is due, counted from the beginning of the phase, whatever has
    /// become of the ones before it. One that is due while `in_flight_max` others are unanswered is shed.
    pub(crate) async fn open_loop(
        self: &Arc<Self>,
        arrivals: impl Iterator<Item = Duration>,
        duration: Duration,
        in_flight_max: u32,
        pacer: &Pacer,
    ) -> io::Result<()> {
        let until = Until { requests_max: u64::MAX, deadline: Some(self.begin + duration) };
        let mut in_flight = JoinSet::new();
        let mut first = true;
        for due in arrivals.take_while(|due| *due < duration) {
            if self.gave_up() {
                break;
            }
            let due = self.begin + due;
            pacer.wait_until(due).await?;
            while let Some(joined) = in_flight.try_join_next() {
                settle(joined)?;
            }
            if in_flight.len() >= in_flight_max as usize {
                self.stats().record_shed(due, self.caller.stream);
                continue;
            }
            let number = self.next.fetch_add(1, Relaxed);
            let thinking = self.thinking(Clock::IntendedTime, pacer)?;
            let phase = Arc::clone(self);
            let opens = std::mem::take(&mut first);
            in_flight.spawn(async move {
                let started = || {
                    if opens {
                        phase.stats().steady.open(Instant::now());
                    }
                };
                phase.session(number, due, until, thinking.as_ref(), started).await
            });
        }
        self.stats().steady.close(if self.gave_up() { Instant::now() } else { self.begin + duration });
        while let Some(joined) = in_flight.join_next().await {
            settle(joined)?;
        }
        Ok(())
    }

    /// The number of the next request; none when no more may be sent.
    fn take_number(&self, until: Until) -> Option<u64> {
        let over = until.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.gave_up() || over {
            return None;
        }
        let number = self.next.fetch_add(1, Relaxed);
        (number < until.requests_max).then_some(number)
    }

    /// What the pauses of a session need; none where requests are single.
    fn thinking(&self, clock: Clock, pacer: &Pacer) -> io::Result<Option<Thinking>> {
        let sessions = self.caller.workload.has_sessions();
        sessions.then(|| Ok(Thinking { clock, pacer: pacer.another()? })).transpose()
    }

    /// A request, and where it is the first turn of a session the turns after it, each when the one before was answered
    /// and thought about. A session ends early with a failed request, and when no more may be sent. `started` is called
    /// when the first request has ended.
    async fn session(
        &self,
        number: u64,
        due: Instant,
        until: Until,
        thinking: Option<&Thinking>,
        started: impl FnOnce(),
    ) -> io::Result<()> {
        let workload = &self.caller.workload;
        let session = thinking
            .and_then(|thinking| Some((workload.session(self.sessions.fetch_add(1, Relaxed))?, thinking)));
        let Some((mut session, Thinking { clock, pacer })) = session else {
            self.send(number, due, workload.body(number)).await;
            started();
            return Ok(());
        };
        let mut answer = self.send(number, due, session.body()).await;
        started();
        while let Some(Answer { ids, ended }) = answer {
            let Some(think_time) = session.advance(&ids) else { break };
            let due = ended + think_time;
            if !think_time.is_zero() {
                pacer.wait_until(due).await?;
            }
            let Some(number) = self.take_number(until) else { break };
            let due = match clock {
                Clock::ServiceTime => Instant::now(),
                Clock::IntendedTime => due,
            };
            answer = self.send(number, due, session.body()).await;
        }
        Ok(())
    }

    /// One request, counted. Returns its answer when it was right.
    async fn send(&self, number: u64, due: Instant, body: Body) -> Option<Answer> {
        let start = Start { due, sent: Instant::now() };
        let call = self.caller.call(body).await;
        let succeeded = call.result.is_ok();
        if !succeeded {
            // Saturating: several requests may fail after the last allowed failure.
            let _ = self.failures_left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        }
        let found = self.stats().record(start, &call);
        if let Some(target) = &self.target {
            let failure = call.result.as_ref().err().map(|failure| failure.kind.to_string());
            let ended = Ended { target, number, begin: self.begin, start, call: &call, found };
            self.progress.measured(&ended.record(failure.as_deref()));
        }
        self.progress.finished(succeeded);
        succeeded.then_some(Answer { ids: call.ids, ended: call.ended })
    }

    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().expect("no holder panics")
    }
}

/// Passes a panic of a client on; nothing here is ever cancelled but with the loop itself.
fn settle(joined: Result<io::Result<()>, JoinError>) -> io::Result<()> {
    joined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

#[cfg(test)]
mod tests;
