//! The result of a run, with the unit of every number in its name.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::config::{Api, BenchConfig, Limits, Load, WorkloadConfig};
use crate::process::Reading;
use crate::stats::{Stats, Times};

/// What one run measured. Serializes to the JSON of `tito bench --json`; absent measurements are null.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Who was measured.
    pub target: TargetLabel,
    /// What each request asked for.
    pub workload: WorkloadConfig,
    /// When requests were sent.
    pub load: Load,
    /// Bounds that held.
    pub limits: Limits,
    /// What `ttft_ms` and `e2e_ms` are counted from.
    pub clock: Clock,
    /// From the start to the end of the last reply, seconds.
    pub elapsed_s: f64,
    /// How many requests went which way.
    pub requests: Requests,
    /// Replies that were right, per second of `elapsed_s`.
    pub requests_per_s: f64,
    /// Prompt tokens of those replies, per second.
    pub prompt_tokens_per_s: f64,
    /// Output tokens of those replies, per second.
    pub output_tokens_per_s: f64,
    /// Time to the first output, streams only, milliseconds.
    pub ttft_ms: Option<Percentiles>,
    /// Gap between two events with output, streams only, milliseconds.
    pub itl_ms: Option<Percentiles>,
    /// Mean time per output token after the first event, one value per stream, milliseconds.
    pub tpot_ms: Option<Percentiles>,
    /// Time to the end of the reply, milliseconds.
    pub e2e_ms: Option<Percentiles>,
    /// How late the generator sent, open loop only, milliseconds. Part of TTFT and E2E.
    pub send_lag_ms: Option<Percentiles>,
    /// Failed requests by kind, warm-up excluded.
    pub failures: BTreeMap<String, Failures>,
    /// Connections opened, warm-up included.
    pub connections_opened: u64,
    /// CPU of all measured processes per finished request, milliseconds; null when none was named or one vanished.
    pub cpu_ms_per_request: Option<f64>,
    /// Sum over the measured processes of their largest resident set, bytes; null as above.
    pub rss_peak_bytes: Option<u64>,
    /// Each measured process.
    pub processes: Vec<ProcessUse>,
    /// Measured processes that vanished, in words.
    pub process_errors: Vec<String>,
    /// The generator's own cost.
    pub generator: Option<GeneratorUse>,
    /// The run gave up before its end because too many requests failed.
    pub gave_up: bool,
}

/// Who was measured.
#[derive(Debug, Clone, Serialize)]
pub struct TargetLabel {
    /// Name in tables.
    pub name: String,
    /// Base URL.
    pub url: String,
    /// Route driven.
    pub api: Api,
}

/// What latencies are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// From the moment the request was sent (closed loop). A stalled server slows the sending down too, so this does
    /// not show what independent users would have waited.
    ServiceTime,
    /// From the moment the request was due (open loop), however late it was sent.
    IntendedTime,
}

/// How many requests went which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// Replies that were right.
    pub succeeded: u64,
    /// Requests without a right reply.
    pub failed: u64,
    /// Arrivals not sent because too many requests were in flight.
    pub shed: u64,
    /// Warm-up replies that were right.
    pub warmup_succeeded: u64,
    /// Warm-up requests without a right reply.
    pub warmup_failed: u64,
}

/// Failed requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// The first one, in words.
    pub example: String,
}

/// A distribution of times in milliseconds, each value within 0.1 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "each field is the statistic it is named after")]
pub struct Percentiles {
    /// Number of values.
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    /// The 99.9th.
    pub p99_9: f64,
    pub max: f64,
}

/// What one measured process used during the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessUse {
    /// Its id.
    pub pid: u32,
    /// Its command name.
    pub name: String,
    /// User and system time of all threads during the run, milliseconds.
    pub cpu_ms: f64,
    /// The same per finished request.
    pub cpu_ms_per_request: f64,
    /// Largest resident set since the process started, bytes.
    pub rss_peak_bytes: u64,
    /// Resident set at the end of the run, bytes.
    pub rss_bytes: u64,
}

/// What the generator itself used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GeneratorUse {
    /// CPU per finished request, milliseconds.
    pub cpu_ms_per_request: f64,
    /// Cores kept busy. Near the number of its threads, the generator is the bottleneck and its times are not the
    /// server's.
    pub cores_busy: f64,
}

/// The processes before and after, those that vanished in words.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    pub(crate) pairs: Vec<(Reading, Reading)>,
    pub(crate) errors: Vec<String>,
    pub(crate) generator: Option<(Reading, Reading)>,
}

/// What a run hands to its report.
pub(crate) struct Measured {
    pub(crate) warmup: Stats,
    pub(crate) stats: Stats,
    pub(crate) elapsed: Duration,
    pub(crate) costs: Costs,
    pub(crate) connections_opened: u64,
    pub(crate) gave_up: bool,
}

impl Report {
    /// True when every request got a right reply, none was shed, and every named process lived to the end.
    pub fn ok(&self) -> bool {
        let Requests { succeeded, failed, shed, warmup_succeeded: _, warmup_failed } = self.requests;
        succeeded > 0 && failed + shed + warmup_failed == 0 && self.process_errors.is_empty() && !self.gave_up
    }

    pub(crate) fn new(config: &BenchConfig, measured: Measured) -> Self {
        let Measured { warmup, stats, elapsed, costs, connections_opened, gave_up } = measured;
        let (clock, send_lag_ms) = match config.load {
            Load::Closed { .. } => (Clock::ServiceTime, None),
            Load::Open { .. } => (Clock::IntendedTime, Percentiles::of(&stats.send_lag)),
        };
        let elapsed_s = elapsed.as_secs_f64();
        let per_s = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
        let finished = stats.succeeded + stats.failed;
        let processes: Vec<_> = costs.pairs.iter().map(|pair| ProcessUse::between(pair, finished)).collect();
        let complete = costs.errors.is_empty() && !processes.is_empty();
        Self {
            target: TargetLabel {
                name: config.target.name.clone(),
                url: config.target.url.clone(),
                api: config.target.api,
            },
            workload: config.workload.clone(),
            load: config.load,
            limits: config.limits,
            clock,
            elapsed_s,
            requests: Requests {
                succeeded: stats.succeeded,
                failed: stats.failed,
                shed: stats.shed,
                warmup_succeeded: warmup.succeeded,
                warmup_failed: warmup.failed,
            },
            requests_per_s: per_s(stats.succeeded),
            prompt_tokens_per_s: per_s(stats.prompt_tokens),
            output_tokens_per_s: per_s(stats.output_tokens),
            ttft_ms: Percentiles::of(&stats.ttft),
            itl_ms: Percentiles::of(&stats.itl),
            tpot_ms: Percentiles::of(&stats.tpot),
            e2e_ms: Percentiles::of(&stats.e2e),
            send_lag_ms,
            failures: failures(warmup, stats),
            connections_opened,
            cpu_ms_per_request: complete
                .then(|| processes.iter().map(|process| process.cpu_ms_per_request).sum()),
            rss_peak_bytes: complete.then(|| processes.iter().map(|process| process.rss_peak_bytes).sum()),
            processes,
            process_errors: costs.errors,
            generator: costs.generator.map(|pair| GeneratorUse {
                cpu_ms_per_request: ProcessUse::between(&pair, finished).cpu_ms_per_request,
                cores_busy: if elapsed_s > 0.0 {
                    pair.1.cpu.saturating_sub(pair.0.cpu).as_secs_f64() / elapsed_s
                } else {
                    0.0
                },
            }),
            gave_up,
        }
    }
}

/// Failures of the measured phase, and those of the warm-up under a prefix of their own.
fn failures(warmup: Stats, stats: Stats) -> BTreeMap<String, Failures> {
    let named = |prefix: &'static str, stats: Stats| {
        let kinds = stats.failures.into_iter();
        kinds.map(move |(kind, tally)| {
            (format!("{prefix}{kind}"), Failures { count: tally.count, example: tally.example })
        })
    };
    named("warmup.", warmup).chain(named("", stats)).collect()
}

impl Percentiles {
    /// None when nothing was recorded.
    pub(crate) fn of(times: &Times) -> Option<Self> {
        let histogram = times.histogram();
        let ms = |nanoseconds: f64| nanoseconds / 1e6;
        let at = |quantile| ms(histogram.value_at_quantile(quantile) as f64);
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            mean: ms(histogram.mean()),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: ms(histogram.max() as f64),
        })
    }
}

impl ProcessUse {
    fn between((before, after): &(Reading, Reading), finished: u64) -> Self {
        let cpu_ms = after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e3;
        Self {
            pid: after.pid,
            name: after.name.clone(),
            cpu_ms,
            cpu_ms_per_request: cpu_ms / finished.max(1) as f64,
            rss_peak_bytes: after.rss_peak_bytes,
            rss_bytes: after.rss_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
