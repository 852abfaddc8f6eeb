//! What is counted while requests run.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

use crate::caller::Delivered;
use crate::config::TIME_MAX;
use crate::failure::{Failure, FailureKind};

/// Significant decimal digits a histogram keeps: a reported value is within 0.1 % of the measured one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// When a request was due and when it was sent. In a closed loop both are the same moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) due: Instant,
    pub(crate) sent: Instant,
}

/// Everything measured in one phase.
#[derive(Debug)]
pub(crate) struct Stats {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) shed: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) output_tokens: u64,
    /// From due to the first output, streams only.
    pub(crate) ttft: Times,
    /// Between two events with output of one stream.
    pub(crate) itl: Times,
    /// Mean time per token after the first event, one value per stream.
    pub(crate) tpot: Times,
    /// From due to the last byte.
    pub(crate) e2e: Times,
    /// From due to sent: how late the generator itself was.
    pub(crate) send_lag: Times,
    pub(crate) failures: BTreeMap<FailureKind, Tally>,
    /// When the last reply ended.
    pub(crate) last_end: Option<Instant>,
}

/// How often a kind of failure came, and its first example.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) example: String,
}

impl Stats {
    pub(crate) fn new() -> Self {
        Self {
            succeeded: 0,
            failed: 0,
            shed: 0,
            prompt_tokens: 0,
            output_tokens: 0,
            ttft: Times::new(),
            itl: Times::new(),
            tpot: Times::new(),
            e2e: Times::new(),
            send_lag: Times::new(),
            failures: BTreeMap::new(),
            last_end: None,
        }
    }

    /// Counts one request that ended now.
    pub(crate) fn record(&mut self, start: Start, outcome: Result<Delivered, Failure>, now: Instant) {
        self.send_lag.record(start.sent - start.due);
        match outcome {
            Ok(delivered) => self.record_delivered(start, &delivered),
            Err(failure) => self.record_failed(failure, now),
        }
    }

    fn record_delivered(&mut self, start: Start, delivered: &Delivered) {
        let Delivered { prompt_tokens, output_tokens, outputs, finished } = delivered;
        self.succeeded += 1;
        self.prompt_tokens += u64::from(*prompt_tokens);
        self.output_tokens += u64::from(*output_tokens);
        self.last_end = self.last_end.max(Some(*finished));
        self.e2e.record(*finished - start.due);
        let (Some(first), Some(last)) = (outputs.first(), outputs.last()) else { return };
        self.ttft.record(*first - start.due);
        for pair in outputs.windows(2) {
            self.itl.record(pair[1] - pair[0]);
        }
        if *output_tokens > 1 {
            self.tpot.record((*last - *first) / (output_tokens - 1));
        }
    }

    fn record_failed(&mut self, failure: Failure, now: Instant) {
        self.failed += 1;
        self.last_end = self.last_end.max(Some(now));
        let Failure { kind, detail } = failure;
        self.failures.entry(kind).or_insert(Tally { count: 0, example: detail }).count += 1;
    }
}

/// A histogram of durations, kept in nanoseconds. Of fixed size, whatever is recorded.
#[derive(Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Self {
        let max = TIME_MAX.as_nanos() as u64;
        let histogram = Histogram::new_with_bounds(1, max, SIGNIFICANT_DIGITS);
        Self(histogram.expect("the bounds and digits are constants that fit"))
    }

    pub(crate) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}
