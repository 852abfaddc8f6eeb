//! What a measurement is made of: the target, the work, the load and the limits.
//!
//! Plain structs without defaults of their own; [`defaults`] names the values a command line should offer.

mod lengths;
mod parse;
mod session;
mod target;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::goodput::Slo;
use crate::input::{DataSet, LineOrder, Trace};
use crate::rng::Rng;

pub use lengths::{Bell, Choice, Lengths};
pub use parse::ParseError;
pub use session::{SessionConfig, TimeSpan};
pub use target::{Api, ApiKey, Header, Target, Trust};
pub use validate::{ConfigError, ConfigErrors};
pub(crate) use validate::{OUTPUT_TOKENS_MAX, PROMPT_TOKENS_MAX, TIME_MAX, check_sweep, rounds};

/// The values a caller should offer where the user says nothing.
pub mod defaults {
    use std::time::Duration;

    use super::{Lengths, Span};

    /// Prompt ids. Small and clear of special tokens, so that even a test model of 1,010 tokens takes all of them.
    pub const IDS: Span = Span { first: 10, last: 999 };
    /// Prompt length, in tokens.
    pub const PROMPT_TOKENS: Lengths = Lengths::fixed(512);
    /// Tokens to generate, per request.
    pub const OUTPUT_TOKENS: Lengths = Lengths::fixed(16);
    /// Requests of a closed loop.
    pub const REQUESTS: u64 = 10_000;
    /// How long an open loop sends.
    pub const DURATION: Duration = Duration::from_secs(30);
    /// Requests before the clock starts: enough to open the connections and settle the allocators.
    pub const WARMUP_REQUESTS: u64 = 200;
    /// Requests of one closed loop in flight.
    pub const CONCURRENCY: u32 = 64;
    /// Requests of one open loop in flight before arrivals are shed.
    pub const IN_FLIGHT_MAX: u32 = 4096;
    /// Longest wait for one whole reply. Generous: a long generation is not a failure.
    pub const REQUEST_TIMEOUT: Duration = Duration::from_mins(5);
    /// Largest unary reply, and largest single event of a stream, in bytes.
    pub const REPLY_BYTES_MAX: usize = 64 << 20;
    /// Failed requests after which nothing more is sent: a dead server should end the run, not spin it.
    pub const FAILURES_MAX: u64 = 1000;
    /// Interval of the time series.
    pub const INTERVAL: Duration = Duration::from_secs(1);
    /// Largest 99th percentile of the generator's own lags: small against what a user notices, and above what a machine with
    /// other work to do makes a thread wait.
    pub const LAG_MAX: Duration = Duration::from_millis(10);
    /// Rates that a sweep tries at most: from 1 per second to some thousand by doubling, or to some hundred and then to a
    /// tenth.
    pub const SWEEP_STEPS: u32 = 12;
    /// Share of the requests that must be good for a rate to pass.
    pub const GOOD_SHARE: f64 = 0.99;
    /// A sweep ends when its bracket is at most this share wide.
    pub const SWEEP_PRECISION: f64 = 0.05;
    /// First rate of a sweep, per second.
    pub const SWEEP_RATE_PER_S: f64 = 1.0;
    /// Rounds of a comparison: odd, so that the median is one that was measured.
    pub const ROUNDS: u32 = 5;
}

/// One measurement: this work, under this load, against this target.
#[derive(Debug, Clone)]
pub struct BenchConfig {
    /// Who is measured.
    pub target: Target,
    /// What each request asks for.
    pub workload: WorkloadConfig,
    /// When requests are sent, and how many.
    pub load: Load,
    /// Bounds on one request and on the run.
    pub limits: Limits,
    /// Requests sent before the clock starts. They are checked but not measured.
    pub warmup_requests: u64,
    /// What is made of the measured requests.
    pub report: ReportConfig,
}

/// What is made of the measured requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReportConfig {
    /// Limits that a request must meet to count as good; empty for none.
    pub slo: Slo,
    /// Interval of the time series.
    #[serde(rename = "interval_s", serialize_with = "seconds")]
    pub interval: Duration,
    /// Largest 99th percentile of the generator's own lags; beyond it the run is invalid.
    #[serde(rename = "lag_max_s", serialize_with = "seconds")]
    pub lag_max: Duration,
    /// A run whose generator was late is valid all the same.
    pub late_allowed: bool,
}

/// What each request asks for. Everything random comes from the seed.
#[derive(Debug, Clone, Serialize)]
pub struct WorkloadConfig {
    /// Where prompts come from.
    pub prompts: PromptSource,
    /// Conversations instead of single requests.
    pub session: Option<SessionConfig>,
    /// Tokens to generate, per request, where the prompt does not come with a number.
    pub output_tokens: Lengths,
    /// Prompt ids that are not read from a file are drawn evenly from this span.
    pub ids: Span,
    /// Ask the engine to go on to the last token; the reply must then hold exactly as many tokens as were asked for.
    pub ignore_eos: bool,
    /// Ask for a stream of events instead of one body.
    pub stream: bool,
    /// Decides lengths and arrival times.
    pub seed: u64,
    /// Decides which ids the prompts hold. Runs that share it ask for the same prompts, so a prefix cache that one of
    /// them filled serves the other.
    pub prompt_seed: u64,
}

/// Where prompts come from.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptSource {
    /// They are drawn.
    Random {
        /// Length in tokens, shared prefix included.
        prompt_tokens: Lengths,
        /// Which requests share the beginning of their prompts.
        prefix: PrefixConfig,
    },
    /// They are read from a file.
    DataSet {
        /// The prompts.
        #[serde(serialize_with = "shared")]
        set: Arc<DataSet>,
        /// Which lines are sent, in JSON the first, counted from 0.
        #[serde(rename = "first", serialize_with = "first_line")]
        order: LineOrder,
    },
    /// Their lengths and common blocks are recorded, their ids are drawn.
    Trace {
        /// The requests.
        #[serde(serialize_with = "shared")]
        trace: Arc<Trace>,
    },
}

/// Groups of requests that begin with the same tokens, as the samples of one reinforcement-learning prompt do.
///
/// Requests are numbered in sending order; request k belongs to group `(k / siblings) % groups`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PrefixConfig {
    /// Number of different prefixes.
    pub groups: u32,
    /// Length of each prefix in tokens; 0 shares nothing.
    pub tokens: u32,
    /// Consecutive requests of one group before the next group's turn.
    pub siblings: u32,
}

impl PrefixConfig {
    /// No request shares anything with another.
    pub const NONE: Self = Self { groups: 1, tokens: 0, siblings: 1 };
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "loop", rename_all = "snake_case")]
pub enum Load {
    /// A fixed number of clients, each sending its next request when its last reply is complete.
    Closed {
        /// Number of clients.
        concurrency: u32,
        /// When they stop.
        #[serde(flatten)]
        stop: Stop,
    },
    /// Requests sent on a schedule that does not wait for replies.
    Open {
        /// Mean arrivals per second.
        rate_per_s: f64,
        /// How arrivals are spread.
        arrivals: ArrivalProcess,
        /// How long requests arrive.
        #[serde(rename = "duration_s", serialize_with = "seconds")]
        duration: Duration,
        /// Requests in flight beyond which an arrival is shed and counted.
        in_flight_max: u32,
    },
    /// Requests sent at the times of a trace, whatever has become of the ones before.
    FixedSchedule {
        /// Multiple of the recorded speed.
        speed: f64,
        /// After this time nothing more is sent, where there is a limit.
        #[serde(rename = "duration_s", serialize_with = "optional_seconds")]
        duration: Option<Duration>,
        /// Requests in flight beyond which an arrival is shed and counted.
        in_flight_max: u32,
    },
}

/// When a closed loop stops sending. What is in flight is always waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Stop {
    /// After this many requests in all.
    #[serde(rename = "requests")]
    Requests(u64),
    /// After this time.
    #[serde(rename = "duration_s", serialize_with = "seconds")]
    Time(Duration),
}

/// How the arrivals of an open loop are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalProcess {
    /// Independent clients: exponential gaps, drawn from the workload's seed.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Gaps of a gamma distribution with this shape: below 1 requests come in bursts, 1 is Poisson, above 1 the gaps are
    /// more even.
    Gamma {
        /// The shape.
        burstiness: f64,
    },
}

/// An inclusive range of unsigned numbers, written `N` or `FIRST-LAST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Smallest value.
    pub first: u32,
    /// Largest value.
    pub last: u32,
}

impl Span {
    /// Draws evenly from it.
    pub(crate) fn draw(self, rng: &mut Rng) -> u32 {
        self.first + rng.below(u64::from(self.last - self.first) + 1) as u32
    }
}

/// Bounds on one request and on the run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Limits {
    /// From sending to the end of the reply; beyond it the request has failed and its connection is closed.
    #[serde(rename = "request_timeout_s", serialize_with = "seconds")]
    pub request_timeout: Duration,
    /// Largest unary reply, and largest single event of a stream.
    pub reply_bytes_max: usize,
    /// Failed requests after which nothing more is sent.
    pub failures_max: u64,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[expect(clippy::ref_option, reason = "serde gives a reference")]
fn optional_seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}

fn first_line<S: Serializer>(order: &LineOrder, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(order.line(0))
}

fn shared<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().serialize(serializer)
}
