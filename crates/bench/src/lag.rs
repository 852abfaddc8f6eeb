//! How late the loop that reads replies is.
//!
//! One thread sends, reads and counts. While it is busy, replies wait in the kernel and look later than they came, and
//! events that were written one by one are read together. A probe asks to be woken at short intervals; how long it is
//! overdue at the moment of a read is how late that read may be.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::pacer::Pacer;

/// Time between two turns of the probe. A stall shorter than this may stay unseen.
const PERIOD: Duration = Duration::from_millis(2);

/// What the probe saw last. Moments are nanoseconds since `epoch`.
#[derive(Debug)]
pub(crate) struct LoopLag {
    epoch: Instant,
    due: AtomicU64,
    woken: AtomicU64,
    /// How late the probe was woken then, in nanoseconds.
    late: AtomicU64,
}

impl LoopLag {
    pub(crate) fn new() -> Self {
        let [woken, late] = [0, 0].map(AtomicU64::new);
        Self { epoch: Instant::now(), due: AtomicU64::new(u64::MAX), woken, late }
    }

    /// Keeps the lag up to date until it is dropped; ends only when the timer fails.
    async fn keep(&self, pacer: &Pacer) -> io::Error {
        loop {
            let due = Instant::now() + PERIOD;
            self.due.store(self.nanoseconds(due), Relaxed);
            if let Err(error) = pacer.wait_until(due).await {
                return error;
            }
            let woken = Instant::now();
            self.late.store((woken - due).as_nanos() as u64, Relaxed);
            self.woken.store(self.nanoseconds(woken), Relaxed);
        }
    }

    /// How late a read at this moment may be: the probe is overdue, or just ran overdue in the same turn.
    pub(crate) fn at(&self, moment: Instant) -> Duration {
        let moment = self.nanoseconds(moment);
        let overdue = moment.saturating_sub(self.due.load(Relaxed));
        let just_ran = moment.saturating_sub(self.woken.load(Relaxed)) < PERIOD.as_nanos() as u64;
        Duration::from_nanos(overdue.max(if just_ran { self.late.load(Relaxed) } else { 0 }))
    }

    fn nanoseconds(&self, moment: Instant) -> u64 {
        (moment - self.epoch).as_nanos() as u64
    }
}

/// The task that keeps a lag up to date; it ends with the value.
#[derive(Debug)]
pub(crate) struct Probe(JoinSet<io::Error>);

impl Probe {
    /// Starts with a pacer of its own, of the same kind as the given one.
    pub(crate) fn start(lag: &Arc<LoopLag>, pacer: &Pacer) -> io::Result<Self> {
        let (lag, pacer) = (Arc::clone(lag), pacer.another()?);
        let mut task = JoinSet::new();
        task.spawn(async move { lag.keep(&pacer).await });
        Ok(Self(task))
    }

    /// Ends it; an error when its timer had failed, so that the lag was not kept.
    pub(crate) fn end(mut self) -> io::Result<()> {
        match self.0.try_join_next() {
            None => Ok(()),
            Some(Ok(error)) => Err(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests;
