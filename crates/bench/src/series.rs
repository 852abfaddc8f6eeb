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
use crate::times::{Sample, quantile};

/// Intervals that are kept.
const ROWS_MAX: usize = 600;
/// Significant decimal digits of a latency: within 1 %.
const SIGNIFICANT_DIGITS: u8 = 2;
/// Two latencies that differ by less than this share of the smaller one cannot be told apart, as each is within 1 %.
const RESOLUTION: f64 = 0.02;

/// What a run did over time.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// Length of each interval, seconds: the one asked for, or that times a power of two where the run was longer than 600
    /// of them.
    pub interval_s: f64,
    /// The intervals in order, from the start of the run.
    pub intervals: Vec<Interval>,
}

/// What came in one interval. Latencies are milliseconds within 1 %. A failed request counts in them with the time after which
/// it failed, in the interval in which it did, and a shed arrival with 0. They are null where there was none, and where they
/// would be lower bounds.
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
    ttft: Micros,
    e2e: Micros,
}

/// Microseconds, those that a failure cut short apart; each histogram grows with its largest value.
#[derive(Debug, Default)]
struct Micros {
    known: Option<Histogram<u32>>,
    censored: Option<Histogram<u32>>,
}

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
        *(if call.result.is_ok() { &mut end.succeeded } else { &mut end.failed }) += 1;
        end.e2e.record(latencies.e2e);
        if let Some(ttft) = latencies.ttft {
            let known_at = call.outputs.first().map_or(call.ended, |first| first.at);
            self.row(known_at).ttft.record(ttft);
        }
    }

    /// Adds an arrival that was not sent.
    pub(crate) fn record_shed(&mut self, due: Instant, stream: bool) {
        let unknown = Sample::AtLeast(Duration::ZERO);
        let row = self.row(due);
        row.shed += 1;
        row.e2e.record(unknown);
        if stream {
            row.ttft.record(unknown);
        }
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
        self.ttft.add(ttft);
        self.e2e.add(e2e);
    }

    fn finish(&self, at_s: f64, in_flight: u64) -> Interval {
        Interval {
            at_s,
            sent: self.sent,
            succeeded: self.succeeded,
            failed: self.failed,
            shed: self.shed,
            in_flight,
            output_tokens: self.output_tokens,
            ttft_ms_p50: self.ttft.quantile_ms(500),
            ttft_ms_p99: self.ttft.quantile_ms(990),
            e2e_ms_p50: self.e2e.quantile_ms(500),
            e2e_ms_p99: self.e2e.quantile_ms(990),
        }
    }
}

impl Micros {
    fn record(&mut self, sample: Sample) {
        let (histogram, time) = match sample {
            Sample::Known(time) => (&mut self.known, time),
            Sample::AtLeast(time) => (&mut self.censored, time),
        };
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(u64::from(u32::MAX) << 10);
        let new = || Histogram::new(SIGNIFICANT_DIGITS).expect("the digits are a constant that fits");
        histogram.get_or_insert_with(new).record(micros.max(1)).expect(GROWS);
    }

    fn add(&mut self, Self { known, censored }: Self) {
        for (own, other) in [(&mut self.known, known), (&mut self.censored, censored)] {
            match (own.as_mut(), other) {
                (Some(own), Some(other)) => own.add(other).expect(GROWS),
                (None, other) => *own = other,
                (Some(_), None) => (),
            }
        }
    }

    /// None where nothing was recorded, and where it would be a lower bound.
    fn quantile_ms(&self, per_mille: u64) -> Option<f64> {
        let known = self.known.as_ref()?;
        let mut all = known.clone();
        if let Some(censored) = &self.censored {
            all.add(censored).expect(GROWS);
        }
        let (micros, lower_bound) = quantile(known, &all, per_mille, RESOLUTION);
        (!lower_bound).then_some(micros / 1e3)
    }
}

const GROWS: &str = "a growing histogram takes any value";

#[cfg(test)]
mod tests;
