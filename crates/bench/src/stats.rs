//! What is counted while requests run.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::caller::Call;
use crate::config::ReportConfig;
use crate::failure::{Failure, FailureKind};
use crate::goodput::Slo;
use crate::latency::{Latencies, LatencyTimes};
use crate::series::Recorder;
use crate::steady::Steady;
use crate::times::{Sample, Times};

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
    /// Right replies within the limits of goodput.
    pub(crate) good: u64,
    pub(crate) times: LatencyTimes,
    /// From due to sent: how late the generator itself was.
    pub(crate) send_lag: Times,
    /// How late the generator may have read each event with output, and each unary reply.
    pub(crate) read_lag: Times,
    /// Events with output.
    pub(crate) events: u64,
    /// Those that were read together with the one before of the same stream.
    pub(crate) coalesced: u64,
    pub(crate) steady: Steady,
    pub(crate) series: Recorder,
    pub(crate) failures: BTreeMap<FailureKind, Tally>,
    /// When the last reply ended.
    pub(crate) last_end: Option<Instant>,
    slo: Slo,
}

/// How often a kind of failure came, and its first example.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) example: String,
}

/// What was found out about a request when it was counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) latencies: Latencies,
    /// It met the limits of goodput.
    pub(crate) good: bool,
    /// It was due in the steady window.
    pub(crate) steady: bool,
}

impl Stats {
    /// Nothing yet, of a phase that began at `begin`.
    pub(crate) fn new(begin: Instant, config: &ReportConfig) -> Self {
        Self {
            succeeded: 0,
            failed: 0,
            shed: 0,
            prompt_tokens: 0,
            output_tokens: 0,
            good: 0,
            times: LatencyTimes::new(),
            send_lag: Times::new(),
            read_lag: Times::new(),
            events: 0,
            coalesced: 0,
            steady: Steady::new(),
            series: Recorder::new(begin, config.interval),
            failures: BTreeMap::new(),
            last_end: None,
            slo: config.slo,
        }
    }

    /// Counts one request that ended.
    pub(crate) fn record(&mut self, start: Start, call: &Call) -> Found {
        let latencies = Latencies::of(start.due, call);
        let good = self.slo.is_met(&latencies, call);
        self.good += u64::from(good);
        self.times.record(&latencies, call);
        self.series.record(start.sent, &latencies, call);
        self.last_end = self.last_end.max(Some(call.ended));
        self.record_lag(start, call);
        let steady = self.steady.record(start.due, &latencies, call);
        match &call.result {
            Ok(output_tokens) => {
                self.succeeded += 1;
                self.prompt_tokens += u64::from(call.prompt_tokens);
                self.output_tokens += u64::from(*output_tokens);
            }
            Err(Failure { kind, detail }) => {
                self.failed += 1;
                let example = || Tally { count: 0, example: detail.clone() };
                self.failures.entry(*kind).or_insert_with(example).count += 1;
            }
        }
        Found { latencies, good, steady }
    }

    /// Counts one arrival that was not sent.
    pub(crate) fn record_shed(&mut self, due: Instant, stream: bool) {
        self.shed += 1;
        self.times.record_shed(stream);
        self.steady.record_shed(due, stream);
        self.series.record_shed(due, stream);
    }

    fn record_lag(&mut self, start: Start, call: &Call) {
        self.send_lag.record(Sample::Known(start.sent - start.due));
        self.events += call.outputs.len() as u64;
        self.coalesced += call.outputs.windows(2).filter(|pair| pair[0].at == pair[1].at).count() as u64;
        for output in &call.outputs {
            self.read_lag.record(Sample::Known(Duration::from_micros(u64::from(output.lag_micros))));
        }
        if !call.stream && call.result.is_ok() {
            self.read_lag.record(Sample::Known(call.read_lag));
        }
    }
}

#[cfg(test)]
mod tests;
