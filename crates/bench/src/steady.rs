//! The part of a run between its ramp and its tail.
//!
//! Closed loop: from the moment when each client has its first reply, so that none is in the burst of the start, until
//! the first client has nothing left to send. Open loop: from the end of the first request, when as many have arrived as
//! one lasts, until the schedule ends.

use serde::Serialize;
use tokio::time::Instant;

use crate::caller::Call;
use crate::latency::{Latencies, LatencyTimes, arrivals};
use crate::percentiles::Percentiles;

/// The steady window of a run. Latencies are of the requests that were due in it, replies and tokens of those that came in
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SteadyWindow {
    /// Its beginning, seconds from the start of the run.
    pub from_s: f64,
    /// Its end, seconds from the start of the run.
    pub to_s: f64,
    /// Requests that were due in it, failed and shed ones included.
    pub due: u64,
    /// Right replies that ended in it.
    pub succeeded: u64,
    /// The same per second.
    pub requests_per_s: f64,
    /// Output tokens of right replies per second.
    pub output_tokens_per_s: f64,
    /// TTFT, streams only, milliseconds.
    pub ttft_ms: Option<Percentiles>,
    /// Gap per token, streams only, milliseconds.
    pub itl_ms: Option<Percentiles>,
    /// Mean time per output token after the first event, streams only, milliseconds.
    pub tpot_ms: Option<Percentiles>,
    /// E2E latency, milliseconds.
    pub e2e_ms: Option<Percentiles>,
}

/// What was counted in the window. Latencies belong to the requests that were due in it, replies and tokens to the moment
/// when they came.
#[derive(Debug)]
pub(crate) struct Steady {
    since: Option<Instant>,
    until: Option<Instant>,
    /// Requests that were due in the window, shed ones included.
    due: u64,
    /// Right replies that ended in the window.
    succeeded: u64,
    /// Output tokens of right replies that came in the window.
    output_tokens: u64,
    times: LatencyTimes,
}

impl Steady {
    pub(crate) fn new() -> Self {
        Self { since: None, until: None, due: 0, succeeded: 0, output_tokens: 0, times: LatencyTimes::new() }
    }

    /// The window opens, unless it has.
    pub(crate) fn open(&mut self, at: Instant) {
        self.since.get_or_insert(at);
    }

    /// The window closes, unless it has. May be called before the moment comes.
    pub(crate) fn close(&mut self, at: Instant) {
        self.until.get_or_insert(at);
    }

    /// The window in a run that began at `begin`; none when it never opened, or only once the tail had begun.
    pub(crate) fn window(&self, begin: Instant) -> Option<SteadyWindow> {
        let (since, until) = self.since.zip(self.until).filter(|(since, until)| since < until)?;
        let seconds = (until - since).as_secs_f64();
        Some(SteadyWindow {
            from_s: (since - begin).as_secs_f64(),
            to_s: (until - begin).as_secs_f64(),
            due: self.due,
            succeeded: self.succeeded,
            requests_per_s: self.succeeded as f64 / seconds,
            output_tokens_per_s: self.output_tokens as f64 / seconds,
            ttft_ms: Percentiles::of(&self.times.ttft),
            itl_ms: Percentiles::of(&self.times.itl),
            tpot_ms: Percentiles::of(&self.times.tpot),
            e2e_ms: Percentiles::of(&self.times.e2e),
        })
    }

    /// Adds a request that ended. True when it was due in the window.
    pub(crate) fn record(&mut self, due: Instant, latencies: &Latencies, call: &Call) -> bool {
        let due_in_it = self.holds(due);
        if due_in_it {
            self.due += 1;
            self.times.record(latencies, call);
        }
        self.succeeded += u64::from(call.result.is_ok() && self.holds(call.ended));
        let came = arrivals(call).filter(|(at, _)| self.holds(*at)).map(|(_, tokens)| tokens);
        self.output_tokens += came.sum::<u64>();
        due_in_it
    }

    /// Adds an arrival that was not sent.
    pub(crate) fn record_shed(&mut self, due: Instant, stream: bool) {
        if self.holds(due) {
            self.due += 1;
            self.times.record_shed(stream);
        }
    }

    /// Requests are recorded when they end, by which time the window's bounds that matter to them are known.
    fn holds(&self, moment: Instant) -> bool {
        self.since.is_some_and(|since| since <= moment) && self.until.is_none_or(|until| moment <= until)
    }
}

#[cfg(test)]
mod tests;
