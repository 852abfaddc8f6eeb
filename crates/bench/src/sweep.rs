//! A rate sweep to the knee: the highest arrival rate that a server keeps up with.

mod search;
mod verdict;

use std::sync::Arc;

use serde::Serialize;

use crate::config::{BenchConfig, ConfigError, Load, PromptSource, check_sweep};
use crate::progress::Progress;
use crate::report::Report;
use crate::run::{Error, run};
use crate::verdict::RunVerdict;
use search::Search;

pub use verdict::RateVerdict;

/// The highest rate that a sweep tries, per second.
const RATE_PER_S_MAX: f64 = 1_000_000.0;
/// The lowest one.
const RATE_PER_S_MIN: f64 = 0.001;

/// How a sweep searches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SweepConfig {
    /// Rates that are tried at most.
    pub steps_max: u32,
    /// Share of the requests that must be good, from 0 to 1, where the run has limits for goodput.
    pub good_share_min: f64,
    /// The search ends when the lowest rate that was too high is at most this share above the highest that was not.
    pub precision: f64,
}

/// What a sweep found.
#[derive(Debug, Clone, Serialize)]
pub struct Sweep {
    /// Whether the knee may be used.
    pub verdict: RunVerdict,
    /// How it searched.
    pub config: SweepConfig,
    /// Highest rate that the server kept up with, arrivals per second; null when there was none.
    pub knee_per_s: Option<f64>,
    /// Lowest rate above it that was too high; null when no rate was.
    pub too_high_per_s: Option<f64>,
    /// Why that rate was too high.
    pub limit: Option<RateVerdict>,
    /// Every rate that was tried, in order.
    pub steps: Vec<SweepStep>,
}

/// One rate.
#[derive(Debug, Clone, Serialize)]
pub struct SweepStep {
    /// Arrivals per second.
    pub rate_per_s: f64,
    /// Whether the server kept up.
    pub verdict: RateVerdict,
    /// All that was measured.
    pub report: Report,
}

impl Sweep {
    /// True when there is a knee, and what limits it is the server and not the generator.
    pub fn ok(&self) -> bool {
        self.verdict.ok()
    }

    fn new(config: SweepConfig, search: Search, steps: Vec<SweepStep>) -> Self {
        let failed = steps.iter().rfind(|step| Some(step.rate_per_s) == search.failed);
        let limit = failed.map(|step| step.verdict);
        let late = steps.iter().any(|step| step.report.verdict == RunVerdict::Late);
        // A step that measured nothing says nothing about the server, so neither does what was found before it.
        let nothing = steps.last().map(|step| step.verdict).filter(|verdict| verdict.measured_nothing());
        if let Some(verdict) = nothing {
            let (knee_per_s, too_high_per_s, limit) = (None, None, Some(verdict));
            return Self { verdict: RunVerdict::Failed, config, knee_per_s, too_high_per_s, limit, steps };
        }
        let verdict = match (search.passed, limit) {
            (_, Some(RateVerdict::GeneratorLate)) => RunVerdict::Invalid,
            (None, _) | (_, None) => RunVerdict::Failed,
            (Some(_), Some(_)) if late => RunVerdict::Late,
            (Some(_), Some(_)) => RunVerdict::Ok,
        };
        Self { verdict, config, knee_per_s: search.passed, too_high_per_s: search.failed, limit, steps }
    }
}

/// Measures one rate after another, beginning with that of `config.load`, which must be an open loop. Each step has a seed
/// of its own, so that none asks what an earlier one left in a prefix cache, and begins when the one before has drained.
pub async fn sweep(
    config: &BenchConfig,
    sweep: SweepConfig,
    progress: &Arc<dyn Progress>,
) -> Result<Sweep, Error> {
    sweep_over(config, sweep, async |config| run(&config, progress).await).await
}

/// The same over any way to measure one rate.
async fn sweep_over(
    config: &BenchConfig,
    sweep: SweepConfig,
    run: impl AsyncFn(BenchConfig) -> Result<Report, Error>,
) -> Result<Sweep, Error> {
    let Load::Open { rate_per_s, .. } = config.load else {
        return Err(ConfigError::SweepOfClosedLoop.into());
    };
    check_sweep(sweep).map_err(Error::Config)?;
    let mut search = Search::new(rate_per_s, sweep.precision);
    let (mut steps, mut sent) = (Vec::new(), 0);
    while let Some(rate) = search.next().filter(|rate| (RATE_PER_S_MIN..=RATE_PER_S_MAX).contains(rate)) {
        let number = steps.len() as u32;
        if number >= sweep.steps_max {
            break;
        }
        let mut report = run(at_rate(config, rate, number, sent)).await?;
        report.target.name.clone_from(&config.target.name);
        sent += report.requests.prompts;
        let verdict = RateVerdict::of(&report, sweep.good_share_min);
        steps.push(SweepStep { rate_per_s: rate, verdict, report });
        if verdict.measured_nothing() {
            break;
        }
        search.tried(rate, verdict == RateVerdict::KeptUp);
    }
    Ok(Sweep::new(sweep, search, steps))
}

/// The same run at another rate, with prompts that no other step has: of a data set those after the `sent` prompts of the
/// steps before.
fn at_rate(config: &BenchConfig, rate: f64, number: u32, sent: u64) -> BenchConfig {
    let mut config = config.clone();
    if let Load::Open { rate_per_s, .. } = &mut config.load {
        *rate_per_s = rate;
    }
    config.workload.seed = config.workload.seed.wrapping_add(u64::from(number));
    config.workload.prompt_seed = config.workload.prompt_seed.wrapping_add(u64::from(number));
    if let PromptSource::DataSet { order, .. } = &mut config.workload.prompts {
        *order = order.after(sent);
    }
    config.target.name = format!("{} at {rate:.4}/s", config.target.name);
    config
}

#[cfg(test)]
mod tests;
