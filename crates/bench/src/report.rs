//! The result of a run, with the unit of every number in its name.

use std::collections::BTreeMap;

use serde::Serialize;
use tokio::time::Instant;

use crate::config::{Api, BenchConfig, Limits, Load, ReportConfig, WorkloadConfig};
use crate::failure::FailureKind;
use crate::goodput::Goodput;
use crate::lateness::{self, Signs};
use crate::percentiles::{Curves, Percentiles};
use crate::process::Reading;
use crate::series::Series;
use crate::stats::{Stats, Tally};
use crate::steady::SteadyWindow;
use crate::verdict::{RunSigns, RunVerdict};

/// What one run measured. Serializes to the JSON of `tito bench --json`; absent measurements are null.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Whether the run may be used.
    pub verdict: RunVerdict,
    /// Who was measured.
    pub target: TargetLabel,
    /// What each request asked for.
    pub workload: WorkloadConfig,
    /// When requests were sent.
    pub load: Load,
    /// Bounds that held.
    pub limits: Limits,
    /// What the report was made with.
    pub report: ReportConfig,
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
    /// Gap per token, streams only, milliseconds: an event that carries k tokens after a gap g counts as k gaps of g / k.
    /// Null where the tokens of an event are unknown: no ids, and not as many events as tokens.
    pub itl_ms: Option<Percentiles>,
    /// Gap between two events with output, however many tokens they carry, streams only, milliseconds.
    pub itl_event_ms: Option<Percentiles>,
    /// Mean time per output token after the first event, one value per stream, milliseconds.
    pub tpot_ms: Option<Percentiles>,
    /// Time to the end of the reply, milliseconds.
    pub e2e_ms: Option<Percentiles>,
    /// Requests that met the limits of goodput; null without limits.
    pub goodput: Option<Goodput>,
    /// The run without its ramp and its tail; null when it had no other part.
    pub steady: Option<SteadyWindow>,
    /// How late the generator sent, open loop only, milliseconds. Part of TTFT and E2E.
    pub send_lag_ms: Option<Percentiles>,
    /// How late the generator may have read each event with output, or each unary reply, milliseconds. Part of every latency.
    pub read_lag_ms: Option<Percentiles>,
    /// Share of the events with output that were read together with the one before, from 0 to 1; streams only.
    pub events_coalesced: Option<f64>,
    /// Why the generator was too late for its times to be the server's, in sentences; empty when it was not.
    pub late: Vec<String>,
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
    /// What came in each interval.
    pub series: Series,
    /// The distributions percent by percent, for pictures.
    #[serde(skip)]
    pub(crate) curves: Curves,
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
    /// Whether the server's certificate was checked; null where the URL is not `https://`.
    pub certificates_checked: Option<bool>,
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
    /// Prompts of the workload that were sent: requests, or sessions where requests are their turns.
    pub prompts: u64,
    /// Warm-up replies that were right.
    pub warmup_succeeded: u64,
    /// Warm-up requests without a right reply.
    pub warmup_failed: u64,
}

impl Requests {
    /// Requests or sessions that were due, warm-up aside.
    pub(crate) fn arrivals(&self) -> u64 {
        self.prompts + self.shed
    }
}

/// Failed requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// The first one, in words.
    pub example: String,
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
    /// See [`Requests::prompts`].
    pub(crate) prompts: u64,
    pub(crate) begin: Instant,
    pub(crate) costs: Costs,
    pub(crate) connections_opened: u64,
    pub(crate) gave_up: bool,
}

impl Report {
    /// True when every request got a right reply, none was shed, every named process lived to the end, and the generator
    /// was not late.
    pub fn ok(&self) -> bool {
        self.verdict.ok()
    }

    pub(crate) fn new(config: &BenchConfig, measured: Measured) -> Self {
        let Measured { warmup, mut stats, prompts, begin, costs, connections_opened, gave_up } = measured;
        let elapsed = stats.last_end.unwrap_or(begin) - begin;
        let (clock, send_lag_ms) = match config.load {
            Load::Closed { .. } => (Clock::ServiceTime, None),
            Load::Open { .. } | Load::FixedSchedule { .. } => {
                (Clock::IntendedTime, Percentiles::of(&stats.send_lag))
            }
        };
        let elapsed_s = elapsed.as_secs_f64();
        let per_s = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
        let finished = stats.succeeded + stats.failed;
        let processes: Vec<_> = costs.pairs.iter().map(|pair| ProcessUse::between(pair, finished)).collect();
        let complete = costs.errors.is_empty() && !processes.is_empty();
        let generator = costs.generator.as_ref().map(|pair| GeneratorUse::between(pair, finished, elapsed_s));
        let read_lag_ms = Percentiles::of(&stats.read_lag);
        let events_coalesced = (stats.events > 0).then(|| stats.coalesced as f64 / stats.events as f64);
        let late = lateness::reasons(Signs {
            elapsed,
            lag_max: config.report.lag_max,
            send_lag: send_lag_ms,
            read_lag: read_lag_ms,
            coalesced: events_coalesced,
            generator,
        });
        let requests = Requests {
            succeeded: stats.succeeded,
            failed: stats.failed,
            shed: stats.shed,
            prompts,
            warmup_succeeded: warmup.succeeded,
            warmup_failed: warmup.failed,
        };
        let verdict = RunVerdict::of(RunSigns {
            requests,
            broken: gave_up || !costs.errors.is_empty(),
            late: !late.is_empty(),
            late_allowed: config.report.late_allowed,
        });
        Self {
            verdict,
            target: TargetLabel {
                name: config.target.name.clone(),
                url: config.target.url.clone(),
                api: config.target.api,
                certificates_checked: config.target.certificates_checked(),
            },
            workload: config.workload.clone(),
            load: config.load,
            limits: config.limits,
            report: config.report,
            clock,
            elapsed_s,
            requests,
            requests_per_s: per_s(stats.succeeded),
            prompt_tokens_per_s: per_s(stats.prompt_tokens),
            output_tokens_per_s: per_s(stats.output_tokens),
            ttft_ms: Percentiles::of(&stats.times.ttft),
            itl_ms: Percentiles::of(&stats.times.itl),
            itl_event_ms: Percentiles::of(&stats.times.itl_event),
            tpot_ms: Percentiles::of(&stats.times.tpot),
            e2e_ms: Percentiles::of(&stats.times.e2e),
            goodput: Goodput::of(&stats, config.report.slo, elapsed_s),
            steady: stats.steady.window(begin),
            send_lag_ms,
            read_lag_ms,
            events_coalesced,
            late,
            curves: Curves::of(&stats.times),
            series: stats.series.finish(),
            failures: failures(warmup.failures, std::mem::take(&mut stats.failures)),
            connections_opened,
            cpu_ms_per_request: complete
                .then(|| processes.iter().map(|process| process.cpu_ms_per_request).sum()),
            rss_peak_bytes: complete.then(|| processes.iter().map(|process| process.rss_peak_bytes).sum()),
            processes,
            process_errors: costs.errors,
            generator,
            gave_up,
        }
    }
}

/// Failures of the measured phase, and those of the warm-up under a prefix of their own.
fn failures(warmup: Tallies, measured: Tallies) -> BTreeMap<String, Failures> {
    let named = |prefix: &'static str, tallies: Tallies| {
        let kinds = tallies.into_iter();
        kinds.map(move |(kind, tally)| {
            (format!("{prefix}{kind}"), Failures { count: tally.count, example: tally.example })
        })
    };
    named("warmup.", warmup).chain(named("", measured)).collect()
}

type Tallies = BTreeMap<FailureKind, Tally>;

impl GeneratorUse {
    fn between(pair: &(Reading, Reading), finished: u64, elapsed_s: f64) -> Self {
        let cpu_s = pair.1.cpu.saturating_sub(pair.0.cpu).as_secs_f64();
        Self {
            cpu_ms_per_request: ProcessUse::between(pair, finished).cpu_ms_per_request,
            cores_busy: if elapsed_s > 0.0 { cpu_s / elapsed_s } else { 0.0 },
        }
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
