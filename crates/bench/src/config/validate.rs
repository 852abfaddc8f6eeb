//! Every check on a configuration, so that a bad one ends before a socket opens and names all its mistakes.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    ArrivalProcess, BenchConfig, Lengths, Limits, Load, PrefixConfig, PromptSource, ReportConfig, Span, Stop,
    Target, WorkloadConfig,
};
use crate::sweep::SweepConfig;
use crate::target::Endpoint;

/// Longest prompt, in tokens: far beyond any context, far below what fills memory.
pub(crate) const PROMPT_TOKENS_MAX: u32 = 10_000_000;
/// Most output tokens per request.
pub(crate) const OUTPUT_TOKENS_MAX: u32 = 1_000_000;
/// Most requests in flight, closed or open; a machine has that many ports per address.
const IN_FLIGHT_MAX: u32 = 65_535;
/// Highest arrival rate, per second; beyond it the schedule is finer than the clock is kept.
const RATE_PER_S_MAX: f64 = 1_000_000.0;
/// Smallest and largest shape of gamma gaps; beyond them a run sees one burst, or no spread at all.
const BURSTINESS: (f64, f64) = (0.01, 1000.0);
/// Smallest and largest multiple of a trace's speed.
const SPEED: (f64, f64) = (0.001, 1000.0);
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
/// Headers that say where a message ends or what becomes of its connection.
const OWN_HEADERS: [&str; 6] =
    ["connection", "content-length", "expect", "te", "transfer-encoding", "upgrade"];
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
    /// A normal or log-normal distribution that does not exist.
    #[error(
        "{field} has mean {mean} and standard deviation {stddev}, must be finite, 1 or more and 0 or more"
    )]
    Bell {
        /// Of what.
        field: &'static str,
        /// As given.
        mean: f64,
        /// As given.
        stddev: f64,
    },
    /// A set of lengths with none to draw, or too many.
    #[error("{field} must be a set of 1 to {max} lengths, one of them with a weight above 0")]
    Choices {
        /// Of what.
        field: &'static str,
        /// Most lengths allowed.
        max: usize,
    },
    /// Sessions without turns, or with too many.
    #[error("turns is {turns}, must be a number or a range from 1 to {max}")]
    Turns {
        /// As given.
        turns: Span,
        /// Most allowed.
        max: u32,
    },
    /// The last prompt of a session would be longer than any prompt may be.
    #[error("a session may grow to {tokens} tokens, must be {max} at most: fewer turns, or shorter ones")]
    SessionTooLong {
        /// Tokens of its last prompt.
        tokens: u64,
        /// Most allowed.
        max: u32,
    },
    /// A trace has its own prompts.
    #[error("sessions cannot be made of a trace")]
    SessionOfTrace,
    /// A schedule without the trace that it is taken from.
    #[error("a fixed schedule needs prompts of a trace")]
    NoSchedule,
    /// A header that decides about the connection or the end of the body.
    #[error("header `{0}` is decided by the generator")]
    OwnHeader(String),
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
        let scheduled = matches!(self.load, Load::FixedSchedule { .. });
        if scheduled && !matches!(self.workload.prompts, PromptSource::Trace { .. }) {
            checker.0.push(ConfigError::NoSchedule);
        }
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
    let own = target.headers.iter().filter(|header| OWN_HEADERS.contains(&header.name.as_str()));
    checker.0.extend(own.map(|header| ConfigError::OwnHeader(header.name.to_string())));
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
        prompts,
        session,
        output_tokens,
        ids,
        ignore_eos: _,
        stream: _,
        seed: _,
        prompt_seed: _,
    } = workload;
    match prompts {
        PromptSource::Random { prompt_tokens, prefix } => {
            check_lengths(checker, "prompt_tokens", prompt_tokens, PROMPT_TOKENS_MAX);
            check_prefix(checker, *prefix, prompt_tokens);
        }
        // Checked line by line when it was read.
        PromptSource::DataSet { .. } | PromptSource::Trace { .. } => (),
    }
    if ids.first > ids.last {
        checker.0.push(ConfigError::EmptySpan { field: "ids" });
    }
    check_lengths(checker, "output_tokens", output_tokens, OUTPUT_TOKENS_MAX);
    if let Some(session) = session {
        let prompt_tokens = match prompts {
            PromptSource::Random { prompt_tokens, .. } => prompt_tokens.max(),
            PromptSource::DataSet { set, .. } => set.prompt_tokens_max(),
            PromptSource::Trace { .. } => return checker.0.push(ConfigError::SessionOfTrace),
        };
        checker.0.extend(session.check(prompt_tokens, output_tokens.max()));
    }
}

fn check_lengths(checker: &mut Checker, field: &'static str, lengths: &Lengths, max: u32) {
    match lengths.check(field) {
        Some(error) => checker.0.push(error),
        None => [lengths.min(), lengths.max()].iter().for_each(|tokens| {
            checker.range(field, *tokens, 1.0, f64::from(max));
        }),
    }
    checker.0.dedup();
}

fn check_prefix(checker: &mut Checker, prefix: PrefixConfig, prompt_tokens: &Lengths) {
    let PrefixConfig { groups, tokens, siblings } = prefix;
    checker.range("prefix.groups", groups, 1.0, f64::from(GROUPS_MAX));
    checker.range("prefix.siblings", siblings, 1.0, f64::from(u32::MAX));
    let prompt = prompt_tokens.min();
    if tokens > prompt {
        checker.0.push(ConfigError::PrefixTooLong { prefix: tokens, prompt });
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
        Load::Open { rate_per_s, arrivals, duration, in_flight_max } => {
            checker.range("rate_per_s", rate_per_s, 0.001, RATE_PER_S_MAX);
            match arrivals {
                ArrivalProcess::Gamma { burstiness } => {
                    checker.range("burstiness", burstiness, BURSTINESS.0, BURSTINESS.1);
                }
                ArrivalProcess::Poisson | ArrivalProcess::Constant => (),
            }
            checker.time("duration", duration);
            checker.range("in_flight_max", in_flight_max, 1.0, f64::from(IN_FLIGHT_MAX));
        }
        Load::FixedSchedule { speed, duration, in_flight_max } => {
            checker.range("speed", speed, SPEED.0, SPEED.1);
            if let Some(duration) = duration {
                checker.time("duration", duration);
            }
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
