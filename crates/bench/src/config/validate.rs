//! Every check on a configuration, so that a bad one ends before a socket opens and names all its mistakes.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{BenchConfig, Limits, Load, ReportConfig, Stop, Target, WorkloadConfig};
use crate::sweep::SweepConfig;
use crate::target::Endpoint;

/// Longest prompt, in tokens: far beyond any context, far below what fills memory.
const PROMPT_TOKENS_MAX: u32 = 10_000_000;
/// Most output tokens per request.
const OUTPUT_TOKENS_MAX: u32 = 1_000_000;
/// Most requests in flight, closed or open; a machine has that many ports per address.
const IN_FLIGHT_MAX: u32 = 65_535;
/// Highest arrival rate, per second; beyond it the schedule is finer than the clock is kept.
const RATE_PER_S_MAX: f64 = 1_000_000.0;
/// Longest time anything may take; the histograms are sized for it.
pub(crate) const TIME_MAX: Duration = Duration::from_hours(24);
/// Most prefix groups; their texts are held ready.
const GROUPS_MAX: u32 = 1_000_000;
/// Most processes whose cost is read.
const PIDS_MAX: usize = 64;
/// Shortest interval of a time series; a shorter one holds noise.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// Most rates of a sweep; each keeps a report.
const SWEEP_STEPS_MAX: u32 = 100;
/// Most rounds of a comparison; each round keeps a report per target.
const ROUNDS_MAX: u32 = 1000;
/// Body fields the generator decides. `n` is among them because one choice per reply is what gets checked.
const OWN_FIELDS: [&str; 11] = [
    "token_ids",
    "prompt",
    "model",
    "stream",
    "max_tokens",
    "ignore_eos",
    "n",
    "sampling_params.max_tokens",
    "sampling_params.ignore_eos",
    "sampling_params.n",
    "stream_options.include_usage",
];
/// Objects the generator writes into; more keys may be added to them, but they stay objects.
const OWN_OBJECTS: [&str; 2] = ["sampling_params", "stream_options"];

/// Everything wrong with a configuration.
#[derive(Debug, PartialEq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for error in &self.0 {
            write!(f, "{separator}{error}")?;
            separator = "; ";
        }
        Ok(())
    }
}

/// One mistake in a configuration.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A number outside what makes sense.
    #[error("{field} is {given}, must be {min} to {max}")]
    OutOfRange {
        /// Which number, as the config field is called.
        field: &'static str,
        /// What was given.
        given: f64,
        /// Smallest allowed.
        min: f64,
        /// Largest allowed.
        max: f64,
    },
    /// A range whose end comes before its beginning.
    #[error("{field} ends before it begins")]
    EmptySpan {
        /// Which range.
        field: &'static str,
    },
    /// The shared prefix does not fit in the shortest prompt.
    #[error("prefix of {prefix} tokens does not fit in a prompt of {prompt}")]
    PrefixTooLong {
        /// Tokens of the prefix.
        prefix: u32,
        /// Tokens of the shortest prompt.
        prompt: u32,
    },
    /// A sweep changes the arrival rate, which a closed loop does not have.
    #[error("a sweep needs an open loop, which has an arrival rate")]
    SweepOfClosedLoop,
    /// A limit of goodput on what only streams have.
    #[error("limits on ttft, itl and tpot need streams")]
    SloNeedsStream,
    /// The prepared prompts would need more memory than the generator allows itself.
    #[error("prefixes and one prompt need {bytes} bytes, the pool holds {max}")]
    PoolTooLarge {
        /// Bytes needed.
        bytes: u64,
        /// Bytes allowed.
        max: u64,
    },
    /// The URL is not one this client can use.
    #[error("url `{url}`: {reason}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The API key cannot be sent in a header.
    #[error("the API key holds characters that a header cannot carry")]
    ApiKey,
    /// The extra body names a field that has an option of its own, or replaces an object the generator fills.
    #[error("extra body field `{0}` is decided by the generator")]
    OwnField(String),
}

/// Collects mistakes instead of stopping at the first.
#[derive(Default)]
struct Checker(Vec<ConfigError>);

impl Checker {
    fn range(&mut self, field: &'static str, given: impl Into<f64>, min: f64, max: f64) {
        let given = given.into();
        // Not `given < min || given > max`: that would let NaN through.
        if !(min..=max).contains(&given) {
            self.0.push(ConfigError::OutOfRange { field, given, min, max });
        }
    }

    fn count(&mut self, field: &'static str, given: u64, min: u64, max: u64) {
        self.range(field, given as f64, min as f64, max as f64);
    }

    fn time(&mut self, field: &'static str, given: Duration) {
        self.range(field, given.as_secs_f64(), 0.001, TIME_MAX.as_secs_f64());
    }
}

impl BenchConfig {
    /// Checks everything that can be checked without a network and reports every mistake.
    pub fn check(&self) -> Result<(), ConfigErrors> {
        let mut checker = Checker::default();
        check_target(&mut checker, &self.target);
        check_workload(&mut checker, &self.workload);
        check_load(&mut checker, self.load);
        check_limits(&mut checker, self.limits);
        checker.count("warmup_requests", self.warmup_requests, 0, 1 << 40);
        check_report(&mut checker, &self.report, self.workload.stream);
        if checker.0.is_empty() { Ok(()) } else { Err(ConfigErrors(checker.0)) }
    }
}

/// Checks how a sweep searches.
pub(crate) fn check_sweep(sweep: SweepConfig) -> Result<(), ConfigErrors> {
    let SweepConfig { steps_max, good_share_min, precision } = sweep;
    let mut checker = Checker::default();
    checker.range("steps_max", steps_max, 1.0, f64::from(SWEEP_STEPS_MAX));
    checker.range("good_share_min", good_share_min, 0.0, 1.0);
    checker.range("precision", precision, 0.001, 1.0);
    if checker.0.is_empty() { Ok(()) } else { Err(ConfigErrors(checker.0)) }
}

/// Checks the number of rounds of a comparison.
pub(crate) fn rounds(rounds: u32) -> Result<(), ConfigErrors> {
    let mut checker = Checker::default();
    checker.range("rounds", rounds, 1.0, f64::from(ROUNDS_MAX));
    if checker.0.is_empty() { Ok(()) } else { Err(ConfigErrors(checker.0)) }
}

fn check_target(checker: &mut Checker, target: &Target) {
    if let Err(error) = Endpoint::parse(&target.url) {
        checker.0.push(error);
    }
    if let Some(key) = &target.api_key
        && http::HeaderValue::from_str(key.expose()).is_err()
    {
        checker.0.push(ConfigError::ApiKey);
    }
    checker.count("pids", target.pids.len() as u64, 0, PIDS_MAX as u64);
    check_extra(checker, &target.extra_body);
}

fn check_extra(checker: &mut Checker, extra: &Map<String, Value>) {
    let mut refuse = |path: String| checker.0.push(ConfigError::OwnField(path));
    for (key, value) in extra {
        match value {
            Value::Object(inner) if OWN_OBJECTS.contains(&key.as_str()) => {
                let paths = inner.keys().map(|inner| format!("{key}.{inner}"));
                paths.filter(|path| OWN_FIELDS.contains(&path.as_str())).for_each(&mut refuse);
            }
            _ if OWN_OBJECTS.contains(&key.as_str()) || OWN_FIELDS.contains(&key.as_str()) => {
                refuse(key.clone());
            }
            _ => (),
        }
    }
}

fn check_workload(checker: &mut Checker, workload: &WorkloadConfig) {
    let WorkloadConfig {
        prompt_tokens,
        output_tokens,
        ids,
        prefix,
        ignore_eos: _,
        stream: _,
        seed: _,
        prompt_seed: _,
    } = workload;
    checker.range("prompt_tokens", prompt_tokens.first, 1.0, f64::from(PROMPT_TOKENS_MAX));
    checker.range("prompt_tokens", prompt_tokens.last, 1.0, f64::from(PROMPT_TOKENS_MAX));
    for (field, span) in [("prompt_tokens", prompt_tokens), ("ids", ids)] {
        if span.first > span.last {
            checker.0.push(ConfigError::EmptySpan { field });
        }
    }
    checker.range("output_tokens", *output_tokens, 1.0, f64::from(OUTPUT_TOKENS_MAX));
    checker.range("prefix.groups", prefix.groups, 1.0, f64::from(GROUPS_MAX));
    checker.range("prefix.siblings", prefix.siblings, 1.0, f64::from(u32::MAX));
    if prefix.tokens > prompt_tokens.first {
        let (prefix, prompt) = (prefix.tokens, prompt_tokens.first);
        checker.0.push(ConfigError::PrefixTooLong { prefix, prompt });
    }
}

fn check_load(checker: &mut Checker, load: Load) {
    match load {
        Load::Closed { concurrency, stop } => {
            checker.range("concurrency", concurrency, 1.0, f64::from(IN_FLIGHT_MAX));
            match stop {
                Stop::Requests(requests) => checker.count("requests", requests, 1, 1 << 40),
                Stop::Time(duration) => checker.time("duration", duration),
            }
        }
        Load::Open { rate_per_s, arrivals: _, duration, in_flight_max } => {
            checker.range("rate_per_s", rate_per_s, 0.001, RATE_PER_S_MAX);
            checker.time("duration", duration);
            checker.range("in_flight_max", in_flight_max, 1.0, f64::from(IN_FLIGHT_MAX));
        }
    }
}

fn check_report(checker: &mut Checker, report: &ReportConfig, stream: bool) {
    let ReportConfig { slo, interval, lag_max, late_allowed: _ } = report;
    if slo.needs_stream() && !stream {
        checker.0.push(ConfigError::SloNeedsStream);
    }
    let interval_s = interval.as_secs_f64();
    checker.range("interval", interval_s, INTERVAL_MIN.as_secs_f64(), TIME_MAX.as_secs_f64());
    checker.time("lag_max", *lag_max);
    slo.limits().for_each(|(_, limit)| checker.time("slo", limit));
}

fn check_limits(checker: &mut Checker, limits: Limits) {
    let Limits { request_timeout, reply_bytes_max, failures_max } = limits;
    checker.time("request_timeout", request_timeout);
    checker.count("reply_bytes_max", reply_bytes_max as u64, 1024, 1 << 32);
    checker.count("failures_max", failures_max, 1, 1 << 40);
}

#[cfg(test)]
mod tests;
