//! When the requests of `tito bench` are sent.

use std::time::Duration;

use clap::Args;
use tito_bench::{ArrivalProcess, Load, PromptSource, Stop, defaults};

use crate::units;

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArgs {
    /// Closed loop: requests in flight [default: 64]
    #[arg(long, alias = "max-concurrency", value_name = "N", conflicts_with = "rate")]
    concurrency: Option<u32>,
    /// Closed loop: requests in all [default: 10000]
    ///
    /// With a file as many as it holds. Of a trace, the lines to read.
    #[arg(long, aliases = ["num-prompts", "request-count"], value_name = "N", conflicts_with_all = ["rate", "duration"])]
    pub(super) requests: Option<u64>,
    /// Stop sending after this time [open loop: 30s]
    #[arg(long, alias = "benchmark-duration", value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Open loop: arrivals per second
    #[arg(long, alias = "request-rate", value_name = "R")]
    rate: Option<f64>,
    /// Open loop: poisson or constant
    #[arg(long, alias = "arrival-pattern", value_name = "PROCESS", default_value = "poisson")]
    arrivals: ArrivalProcess,
    /// Open loop: shape of gamma arrivals, below 1 in bursts
    ///
    /// 1 is poisson, above 1 they are more even.
    #[arg(
        long,
        alias = "arrival-smoothness",
        value_name = "F",
        requires = "rate",
        conflicts_with = "arrivals"
    )]
    burstiness: Option<f64>,
    /// With --trace, without --rate and --concurrency: multiple of the recorded speed
    #[arg(long, hide_short_help = true, alias = "time-scale", value_name = "F", default_value = "1", requires = "trace", conflicts_with_all = ["rate", "concurrency"])]
    trace_speed: f64,
    /// Open loop: arrivals beyond so many in flight are shed and counted
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = defaults::IN_FLIGHT_MAX)]
    in_flight_max: u32,
    /// Requests before the clock starts
    #[arg(long, aliases = ["num-warmups", "warmup-request-count"], value_name = "N", default_value_t = defaults::WARMUP_REQUESTS)]
    pub(super) warmup: u64,
    /// Comparison: how often each target is measured
    #[arg(long, value_name = "N", default_value_t = defaults::ROUNDS)]
    pub(super) rounds: u32,
}

impl LoadArgs {
    /// When these prompts are sent; a sweep is an open loop in any case.
    pub(super) fn load(&self, prompts: &PromptSource, sweep: bool) -> Load {
        let (duration, in_flight_max) = (self.duration, self.in_flight_max);
        if let Some(rate_per_s) = self.rate.or(sweep.then_some(defaults::SWEEP_RATE_PER_S)) {
            let gamma = self.burstiness.map(|burstiness| ArrivalProcess::Gamma { burstiness });
            let arrivals = gamma.unwrap_or(self.arrivals);
            let duration = duration.unwrap_or(defaults::DURATION);
            return Load::Open { rate_per_s, arrivals, duration, in_flight_max };
        }
        let held = match prompts {
            PromptSource::Trace { .. } if self.concurrency.is_none() => {
                return Load::FixedSchedule { speed: self.trace_speed, duration, in_flight_max };
            }
            PromptSource::Trace { trace } => trace.requests(),
            PromptSource::DataSet { set, .. } => set.prompts(),
            PromptSource::Random { .. } => defaults::REQUESTS,
        };
        let concurrency = self.concurrency.unwrap_or(defaults::CONCURRENCY);
        let stop = duration.map_or(Stop::Requests(self.requests.unwrap_or(held)), Stop::Time);
        Load::Closed { concurrency, stop }
    }
}
