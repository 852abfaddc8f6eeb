use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tito_policy::{PolicyKind, UnknownPolicy};
use tito_replay::{Arrivals, EngineProfile, EventPath, ReplayConfig, Timing};

use crate::units;

/// Requests at most: identities of all blocks are kept in memory.
pub(crate) const REQUESTS_MAX: u32 = 1_000_000;

/// What `tito replay` takes.
#[derive(Debug, Args)]
#[command(after_help = "\
A line of the trace is a JSON object with timestamp (ms), input_length and output_length (tokens), and hash_ids, one id \
per block of the prompt: equal ids are equal prompts up to the end of that block. It may have output_hash_ids, session_id \
and delay (ms). Other members are ignored.")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line are independent of each other")]
pub(crate) struct ReplayArgs {
    /// Trace in Mooncake's format, one request a line
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Workers to route over; several numbers are several replays
    #[arg(long, value_name = "N,N", default_value = "8", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) workers: Vec<u32>,
    /// Policies to compare [default: all but direct]
    #[arg(long, value_name = "P,P", value_delimiter = ',', value_parser = policy)]
    policy: Vec<PolicyKind>,
    /// Replay only the first N requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(REQUESTS_MAX)))]
    pub(crate) requests: Option<u32>,
    /// Arrivals, as a multiple of the recorded speed
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub(crate) speed: f64,
    /// Equal seeds give equal results
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,

    /// Tokens that one id of the trace stands for
    #[arg(long, value_name = "TOKENS", default_value_t = TRACE_BLOCK_SIZE)]
    pub(crate) trace_block_size: NonZeroU32,
    /// A conversation's next turn waits for the reply before it
    #[arg(long)]
    closed_loop: bool,
    /// Requests name their session to the router, which keeps sessions together
    #[arg(long)]
    session_affinity: bool,

    /// Tokens per KV block
    #[arg(long, value_name = "TOKENS", default_value_t = BLOCK_SIZE, help_heading = "Each worker")]
    block_size: NonZeroU32,
    /// KV room
    #[arg(long, value_name = "TOKENS", default_value_t = EngineProfile::STANDARD.capacity_tokens, help_heading = "Each worker")]
    kv_tokens: u64,
    /// Sequences that run at once
    #[arg(long, value_name = "N", default_value_t = EngineProfile::STANDARD.running_max, value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Each worker")]
    max_num_seqs: u32,
    /// Tokens computed in one step
    #[arg(long, value_name = "TOKENS", default_value_t = EngineProfile::STANDARD.step_tokens_max, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Each worker")]
    max_num_batched_tokens: u32,
    /// Prompt tokens computed per second, within a step
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000), help_heading = "Each worker")]
    prefill_rate: u32,
    /// Time of every step
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = units::duration, help_heading = "Each worker")]
    step_time: Duration,
    /// Added per million pairs of a prompt token computed in a step and a token before it, cached or not
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration, help_heading = "Each worker")]
    prefill_attention_time: Duration,
    /// Added per sequence that decodes in a step
    #[arg(long, value_name = "TIME", default_value = "0.1ms", value_parser = units::duration, help_heading = "Each worker")]
    decode_time: Duration,
    /// Added per 1000 tokens of context of the sequences that decode in a step
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration, help_heading = "Each worker")]
    decode_context_time: Duration,
    /// From the router's choice until a worker can schedule the request
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration, help_heading = "Each worker")]
    request_time: Duration,
    /// Requests in flight before others wait in the router [default: 4 x --max-num-seqs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Each worker")]
    target_limit: Option<u32>,
    /// From the end of a step until the router knows its KV events
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = units::duration, help_heading = "Each worker")]
    event_delay: Duration,
    /// Added to the delay of each step's events: up to so much, at random
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration, help_heading = "Each worker")]
    event_jitter: Duration,
    /// Probability that the events of a step are lost for good
    #[arg(long, value_name = "P", default_value = "0", value_parser = probability, hide_short_help = true, help_heading = "Each worker")]
    event_loss: f64,
    /// Workers, the first ones, whose index is partial from the start
    #[arg(long, value_name = "N", default_value = "0", hide_short_help = true, help_heading = "Each worker")]
    partial_workers: u32,

    /// Draw the results into a file that ends in .svg or .html
    #[arg(long, value_name = "FILE", value_parser = plot, help_heading = "Output")]
    pub(crate) plot: Option<(PathBuf, PlotKind)>,
    /// Print JSON instead of tables
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Show no progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// What a plot is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlotKind {
    Svg,
    Html,
}

/// Mooncake's.
const TRACE_BLOCK_SIZE: NonZeroU32 = NonZeroU32::new(512).expect("not zero");
const BLOCK_SIZE: NonZeroU32 =
    NonZeroU32::new(EngineProfile::STANDARD.block_tokens).expect("the standard has blocks");

impl ReplayArgs {
    /// The replay over so many workers.
    pub(crate) fn config(&self, workers: u32) -> ReplayConfig {
        let standard = ReplayConfig::new(workers, self.seed);
        let timing = Timing {
            step: self.step_time,
            prefill_token: Duration::from_secs(1) / self.prefill_rate,
            prefill_attention: self.prefill_attention_time,
            decode_sequence: self.decode_time,
            decode_context: self.decode_context_time,
            speed: 1.0,
        };
        let engine = EngineProfile {
            block_tokens: self.block_size.get(),
            capacity_tokens: self.kv_tokens,
            running_max: self.max_num_seqs,
            step_tokens_max: self.max_num_batched_tokens,
            timing,
            request_time: self.request_time,
        };
        let policies = if self.policy.is_empty() { standard.policies.clone() } else { self.policy.clone() };
        ReplayConfig {
            policies,
            engine,
            in_flight_max: self.target_limit.unwrap_or(4 * self.max_num_seqs),
            speed: self.speed,
            arrivals: if self.closed_loop { Arrivals::AfterReply } else { Arrivals::Recorded },
            trace_block_tokens: self.trace_block_size.get(),
            events: EventPath { delay: self.event_delay, jitter: self.event_jitter, loss: self.event_loss },
            session_affinity: self.session_affinity,
            partial_workers: self.partial_workers,
            ..standard
        }
    }
}

fn policy(text: &str) -> Result<PolicyKind, String> {
    match text.parse().map_err(|error: UnknownPolicy| error.to_string())? {
        PolicyKind::Direct => Err("it needs pins, which a trace does not have".to_owned()),
        policy => Ok(policy),
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (1e-3..=1e6).contains(number));
    number.ok_or_else(|| "a number from 0.001 to 1000000".to_owned())
}

fn probability(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "a number from 0 to 1".to_owned())
}

fn plot(text: &str) -> Result<(PathBuf, PlotKind), String> {
    let path = Path::new(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok((path.to_owned(), PlotKind::Svg)),
        Some("html") => Ok((path.to_owned(), PlotKind::Html)),
        _ => Err("its name must end in .svg or .html".to_owned()),
    }
}
