mod results;

use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};
use tito_bench::{
    Api, ApiKey, ArrivalProcess, BenchConfig, Limits, Load, PrefixConfig, Span, Stop, SweepConfig, Target,
    WorkloadConfig, defaults,
};

pub(crate) use results::ResultArgs;

use crate::units;

/// Load on one server, or on several in turns.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Server to measure, http://HOST:PORT; several are compared in interleaved rounds
    #[arg(value_name = "[NAME=]URL", required = true)]
    url: Vec<String>,

    /// Route to drive: generate or completions
    #[arg(
        long,
        value_name = "[NAME=]ROUTE",
        default_value = "generate",
        help_heading = "Target (NAME= for that one only)"
    )]
    api: Vec<String>,
    /// Model to name in each request
    #[arg(long, value_name = "[NAME=]MODEL", help_heading = "Target (NAME= for that one only)")]
    model: Vec<String>,
    /// Key to present
    #[arg(
        long,
        value_name = "KEY",
        env = "TITO_BENCH_API_KEY",
        hide_env_values = true,
        help_heading = "Target (NAME= for that one only)"
    )]
    api_key: Option<ApiKey>,
    /// JSON object merged into each body
    #[arg(long, value_name = "[NAME=]JSON", help_heading = "Target (NAME= for that one only)")]
    body: Vec<String>,
    /// Processes whose CPU and memory are read
    #[arg(long, value_name = "[NAME=]PID[,PID]", help_heading = "Target (NAME= for that one only)")]
    pid: Vec<String>,

    /// Ask for server-sent events
    #[arg(long, help_heading = "Work")]
    stream: bool,
    /// Prompt length in tokens
    #[arg(long, value_name = "N|A-B", default_value_t = defaults::PROMPT_TOKENS, help_heading = "Work")]
    prompt_tokens: Span,
    /// Tokens to generate
    #[arg(long, value_name = "N", default_value_t = defaults::OUTPUT_TOKENS, help_heading = "Work")]
    output_tokens: u32,
    /// Range that prompt ids are drawn from
    #[arg(long, value_name = "A-B", default_value_t = defaults::IDS, help_heading = "Work")]
    ids: Span,
    /// Leading tokens that the requests of a group share
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Work")]
    prefix_tokens: u32,
    /// Number of different prefixes
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Work")]
    prefix_groups: u32,
    /// Consecutive requests of one group before the next group's turn
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Work")]
    prefix_siblings: u32,
    /// Let the engine end a reply early
    #[arg(long, help_heading = "Work")]
    no_ignore_eos: bool,
    /// Equal seeds give equal requests at equal times
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Work")]
    seed: u64,

    /// Closed loop: requests in flight
    #[arg(long, value_name = "N", default_value_t = defaults::CONCURRENCY, conflicts_with = "rate", help_heading = "Load")]
    concurrency: u32,
    /// Closed loop: requests in all
    #[arg(long, value_name = "N", default_value_t = defaults::REQUESTS, conflicts_with_all = ["rate", "duration"], help_heading = "Load")]
    requests: u64,
    /// Stop sending after this time [open loop: 30s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Load")]
    duration: Option<Duration>,
    /// Open loop: arrivals per second
    #[arg(long, value_name = "R", help_heading = "Load")]
    rate: Option<f64>,
    /// Open loop: poisson or constant
    #[arg(long, value_name = "PROCESS", default_value = "poisson", help_heading = "Load")]
    arrivals: ArrivalProcess,
    /// Open loop: arrivals beyond so many in flight are shed and counted
    #[arg(long, value_name = "N", default_value_t = defaults::IN_FLIGHT_MAX, help_heading = "Load")]
    in_flight_max: u32,
    /// Requests before the clock starts
    #[arg(long, value_name = "N", default_value_t = defaults::WARMUP_REQUESTS, help_heading = "Load")]
    warmup: u64,
    /// Comparison: how often each target is measured
    #[arg(long, value_name = "N", default_value_t = defaults::ROUNDS, help_heading = "Load")]
    rounds: u32,

    /// Longest wait for one whole reply
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::positive, help_heading = "Limits")]
    timeout: Duration,
    /// Largest unary reply, and largest single event of a stream
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = units::bytes, help_heading = "Limits")]
    reply_bytes_max: usize,
    /// Give up after this many failed requests
    #[arg(long, value_name = "N", default_value_t = defaults::FAILURES_MAX, help_heading = "Limits")]
    failures_max: u64,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// The parts of one invocation.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) config: BenchConfig,
    pub(crate) others: Vec<Target>,
    pub(crate) rounds: u32,
    pub(crate) sweep: Option<SweepConfig>,
}

impl BenchArgs {
    pub(crate) fn into_bench(self) -> anyhow::Result<Bench> {
        let mut targets = self.targets()?.into_iter();
        let config = BenchConfig {
            target: targets.next().ok_or_else(|| anyhow::anyhow!("no URL is given"))?,
            workload: WorkloadConfig {
                prompt_tokens: self.prompt_tokens,
                output_tokens: self.output_tokens,
                ids: self.ids,
                prefix: PrefixConfig {
                    groups: self.prefix_groups,
                    tokens: self.prefix_tokens,
                    siblings: self.prefix_siblings,
                },
                ignore_eos: !self.no_ignore_eos,
                stream: self.stream,
                seed: self.seed,
                prompt_seed: self.seed,
            },
            load: self.load(),
            limits: Limits {
                request_timeout: self.timeout,
                reply_bytes_max: self.reply_bytes_max,
                failures_max: self.failures_max,
            },
            warmup_requests: self.warmup,
            report: self.results.report(),
        };
        let (others, sweep): (Vec<_>, _) = (targets.collect(), self.results.sweep());
        anyhow::ensure!(sweep.is_none() || others.is_empty(), "--sweep measures one server, not several");
        Ok(Bench { config, others, rounds: self.rounds, sweep })
    }

    fn load(&self) -> Load {
        let concurrency = self.concurrency;
        let first_rate = self.results.sweep.then_some(defaults::SWEEP_RATE_PER_S);
        match (self.rate.or(first_rate), self.duration) {
            (None, None) => Load::Closed { concurrency, stop: Stop::Requests(self.requests) },
            (None, Some(duration)) => Load::Closed { concurrency, stop: Stop::Time(duration) },
            (Some(rate_per_s), duration) => Load::Open {
                rate_per_s,
                arrivals: self.arrivals,
                duration: duration.unwrap_or(defaults::DURATION),
                in_flight_max: self.in_flight_max,
            },
        }
    }

    fn targets(&self) -> anyhow::Result<Vec<Target>> {
        let names: Vec<_> = self.url.iter().map(|text| named(text, &[])).collect();
        let names: Vec<&str> = names.into_iter().map(|(name, url)| name.unwrap_or(url)).collect();
        let targets =
            self.url.iter().zip(&names).map(|(text, name)| self.target(name, named(text, &[]).1, &names));
        targets.collect()
    }

    fn target(&self, name: &str, url: &str, names: &[&str]) -> anyhow::Result<Target> {
        let api = of(name, &self.api, names).last().map_or(Ok(Api::Generate), str::parse)?;
        let extra_body = match of(name, &self.body, names).last() {
            Some(json) => serde_json::from_str::<Map<String, Value>>(json)
                .map_err(|_| anyhow::anyhow!("--body {json}: must be a JSON object"))?,
            None => Map::new(),
        };
        let pids = of(name, &self.pid, names).flat_map(|list| list.split(','));
        let pids = pids.map(|pid| pid.parse().map_err(|_| anyhow::anyhow!("--pid {pid}: not a process id")));
        Ok(Target {
            name: name.to_owned(),
            url: url.to_owned(),
            api,
            model: of(name, &self.model, names).last().map(str::to_owned),
            api_key: self.api_key.clone(),
            extra_body,
            pids: pids.collect::<anyhow::Result<_>>()?,
        })
    }
}

/// The values that hold for one target: those for all, then those for it by name, which therefore come last.
fn of<'a>(target: &'a str, values: &'a [String], names: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let values = move |own: bool| {
        values.iter().map(|text| named(text, names)).filter_map(move |(name, value)| match name {
            None => (!own).then_some(value),
            Some(name) => (own && name == target).then_some(value),
        })
    };
    values(false).chain(values(true))
}

/// `NAME=VALUE`. A URL's own `=` does not count; elsewhere only the names of targets do.
fn named<'a>(text: &'a str, names: &[&str]) -> (Option<&'a str>, &'a str) {
    match text.split_once('=') {
        Some((name, value)) if names.contains(&name) => (Some(name), value),
        Some((name, value)) if names.is_empty() && !name.contains([':', '/']) => (Some(name), value),
        _ => (None, text),
    }
}

#[cfg(test)]
mod tests;
