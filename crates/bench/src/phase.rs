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

use crate::arrivals::Arrivals;
use crate::caller::Caller;
use crate::config::{ReportConfig, Stop};
use crate::connection::Transport;
use crate::export::Ended;
use crate::pacer::Pacer;
use crate::progress::Progress;
use crate::stats::{Start, Stats};

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
    /// Failures still allowed before nothing more is sent.
    failures_left: AtomicU64,
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
            failures_left: AtomicU64::new(caller.limits.failures_max),
        })
    }

    /// True when so many requests failed that the phase gave up.
    pub(crate) fn gave_up(&self) -> bool {
        self.failures_left.load(Relaxed) == 0
    }

    /// What was measured; call it when the loop has ended.
    pub(crate) fn into_stats(self: Arc<Self>) -> Stats {
        let phase = Arc::into_inner(self).expect("the loop has ended, nothing else holds the phase");
        phase.stats.into_inner().expect("no holder panics")
    }

    /// `concurrency` clients, each sending its next request when its last reply is complete.
    pub(crate) async fn closed_loop(self: &Arc<Self>, concurrency: u32, stop: Stop) {
        let (end, deadline) = match stop {
            Stop::Requests(requests) => (requests, None),
            Stop::Time(time) => (u64::MAX, Some(self.begin + time)),
        };
        let starting = Arc::new(AtomicU32::new(concurrency));
        let mut clients = JoinSet::new();
        for _ in 0..concurrency {
            let (phase, starting) = (Arc::clone(self), Arc::clone(&starting));
            clients.spawn(async move {
                let mut first = true;
                while !phase.gave_up() && deadline.is_none_or(|deadline| Instant::now() < deadline) {
                    let number = phase.next.fetch_add(1, Relaxed);
                    if number >= end {
                        break;
                    }
                    phase.send(number, Instant::now()).await;
                    if std::mem::take(&mut first) && starting.fetch_sub(1, Relaxed) == 1 {
                        phase.stats().steady.open(Instant::now());
                    }
                }
                phase.stats().steady.close(Instant::now());
            });
        }
        while let Some(joined) = clients.join_next().await {
            settle(joined);
        }
    }

    /// Sends each request when it is due, counted from the beginning of the phase, whatever has become of the ones before
    /// it. One that is due while `in_flight_max` others are unanswered is shed.
    pub(crate) async fn open_loop(
        self: &Arc<Self>,
        arrivals: Arrivals,
        duration: Duration,
        in_flight_max: u32,
        pacer: &Pacer,
    ) -> io::Result<()> {
        let mut in_flight = JoinSet::new();
        let mut first = true;
        for due in arrivals.take_while(|due| *due < duration) {
            if self.gave_up() {
                break;
            }
            let due = self.begin + due;
            pacer.wait_until(due).await?;
            while let Some(joined) = in_flight.try_join_next() {
                settle(joined);
            }
            if in_flight.len() >= in_flight_max as usize {
                self.stats().record_shed(due, self.caller.stream);
                continue;
            }
            let number = self.next.fetch_add(1, Relaxed);
            let phase = Arc::clone(self);
            let opens = std::mem::take(&mut first);
            in_flight.spawn(async move {
                phase.send(number, due).await;
                if opens {
                    phase.stats().steady.open(Instant::now());
                }
            });
        }
        self.stats().steady.close(if self.gave_up() { Instant::now() } else { self.begin + duration });
        while let Some(joined) = in_flight.join_next().await {
            settle(joined);
        }
        Ok(())
    }

    /// One request, counted.
    async fn send(&self, number: u64, due: Instant) {
        let start = Start { due, sent: Instant::now() };
        let call = self.caller.call(number).await;
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
    }

    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().expect("no holder panics")
    }
}

/// Passes a panic of a client on; nothing here is ever cancelled but with the loop itself.
fn settle(joined: Result<(), JoinError>) {
    if let Err(error) = joined {
        std::panic::resume_unwind(error.into_panic());
    }
}

#[cfg(test)]
mod tests;
