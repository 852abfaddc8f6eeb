//! A run over time: what came in each interval.
//!
//! Of bounded size however long the run is: when there would be too many intervals, each two become one of twice the
//! length. Latencies are kept in small histograms for that, which are added without loss.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::time::Instant;

use crate::caller::Call;
use crate::latency::{Latencies, arrivals};
use crate::times::Sample;

/// Intervals that are kept.
const ROWS_MAX: usize = 600;
/// Significant decimal digits of a latency: within 1 %.
const SIGNIFICANT_DIGITS: u8 = 2;

/// What a run did over time.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// Length of each interval, seconds: the one asked for, or that times a power of two where the run was longer than 600
    /// of them.
    pub interval_s: f64,
    /// The intervals in order, from the start of the run.
    pub intervals: Vec<Interval>,
}

/// What came in one interval. Latencies are of right replies, milliseconds, within 1 %; null where there was none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its beginning, seconds from the start of the run.
    pub at_s: f64,
    /// Requests sent.
    pub sent: u64,
    /// Right replies that ended.
    pub succeeded: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Arrivals that were not sent.
    pub shed: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Output tokens that came, of right replies.
    pub output_tokens: u64,
    /// TTFT of the first outputs that came, the median.
    pub ttft_ms_p50: Option<f64>,
    /// The 99th percentile of the same.
    pub ttft_ms_p99: Option<f64>,
    /// E2E latency of the replies that ended, the median.
    pub e2e_ms_p50: Option<f64>,
    /// The 99th percentile of the same.
    pub e2e_ms_p99: Option<f64>,
}

/// A series that is being recorded.
#[derive(Debug)]
pub(crate) struct Recorder {
    begin: Instant,
    interval: Duration,
    rows: Vec<Row>,
}

#[derive(Debug, Default)]
struct Row {
    sent: u64,
    succeeded: u64,
    failed: u64,
    shed: u64,
    output_tokens: u64,
    ttft: Option<Micros>,
    e2e: Option<Micros>,
}

/// Microseconds; grows with its largest value.
#[derive(Debug)]
struct Micros(Histogram<u32>);

impl Recorder {
    /// The interval is longer than zero.
    pub(crate) fn new(begin: Instant, interval: Duration) -> Self {
        Self { begin, interval, rows: Vec::new() }
    }

    /// Adds a request that ended.
    pub(crate) fn record(&mut self, sent: Instant, latencies: &Latencies, call: &Call) {
        self.row(sent).sent += 1;
        arrivals(call).for_each(|(at, tokens)| self.row(at).output_tokens += tokens);
        let end = self.row(call.ended);
        if call.result.is_err() {
            end.failed += 1;
            return;
        }
        end.succeeded += 1;
        end.e2e.get_or_insert_with(Micros::new).record(latencies.e2e);
        if let (Some(ttft), Some(first)) = (latencies.ttft, call.outputs.first()) {
            self.row(first.at).ttft.get_or_insert_with(Micros::new).record(ttft);
        }
    }

    /// Adds an arrival that was not sent.
    pub(crate) fn record_shed(&mut self, due: Instant) {
        self.row(due).shed += 1;
    }

    pub(crate) fn finish(self) -> Series {
        let interval_s = self.interval.as_secs_f64();
        let mut in_flight: u64 = 0;
        let intervals = self.rows.iter().enumerate().map(|(place, row)| {
            in_flight = (in_flight + row.sent).saturating_sub(row.succeeded + row.failed);
            row.finish(place as f64 * interval_s, in_flight)
        });
        Series { interval_s, intervals: intervals.collect() }
    }

    /// The row that a moment falls into.
    fn row(&mut self, at: Instant) -> &mut Row {
        let mut place = self.place(at);
        while place >= ROWS_MAX {
            self.halve();
            place = self.place(at);
        }
        if place >= self.rows.len() {
            self.rows.resize_with(place + 1, Row::default);
        }
        &mut self.rows[place]
    }

    fn place(&self, at: Instant) -> usize {
        ((at - self.begin).as_nanos() / self.interval.as_nanos()) as usize
    }

    /// Each two rows become one.
    fn halve(&mut self) {
        self.interval *= 2;
        let mut rows = std::mem::take(&mut self.rows).into_iter();
        while let Some(mut row) = rows.next() {
            row.add(rows.next().unwrap_or_default());
            self.rows.push(row);
        }
    }
}

impl Row {
    fn add(&mut self, other: Self) {
        let Self { sent, succeeded, failed, shed, output_tokens, ttft, e2e } = other;
        self.sent += sent;
        self.succeeded += succeeded;
        self.failed += failed;
        self.shed += shed;
        self.output_tokens += output_tokens;
        for (own, other) in [(&mut self.ttft, ttft), (&mut self.e2e, e2e)] {
            match (own.as_mut(), other) {
                (Some(own), Some(other)) => own.0.add(other.0).expect("a growing histogram takes any value"),
                (None, other) => *own = other,
                (Some(_), None) => (),
            }
        }
    }

    fn finish(&self, at_s: f64, in_flight: u64) -> Interval {
        let quantile = |micros: &Option<Micros>, quantile| {
            micros.as_ref().map(|micros| micros.0.value_at_quantile(quantile) as f64 / 1e3)
        };
        Interval {
            at_s,
            sent: self.sent,
            succeeded: self.succeeded,
            failed: self.failed,
            shed: self.shed,
            in_flight,
            output_tokens: self.output_tokens,
            ttft_ms_p50: quantile(&self.ttft, 0.5),
            ttft_ms_p99: quantile(&self.ttft, 0.99),
            e2e_ms_p50: quantile(&self.e2e, 0.5),
            e2e_ms_p99: quantile(&self.e2e, 0.99),
        }
    }
}

impl Micros {
    fn new() -> Self {
        Self(Histogram::new(SIGNIFICANT_DIGITS).expect("the digits are a constant that fits"))
    }

    fn record(&mut self, sample: Sample) {
        let (Sample::Known(time) | Sample::AtLeast(time)) = sample;
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(u64::from(u32::MAX) << 10);
        self.0.record(micros.max(1)).expect("a growing histogram takes any value");
    }
}

#[cfg(test)]
mod tests;
