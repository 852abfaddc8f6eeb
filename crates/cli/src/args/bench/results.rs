//! What `tito bench` makes of the requests that it measured.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tito_bench::{ReportConfig, Slo, SweepConfig, defaults};

use crate::units;

const HEADING: &str = "Results";

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag of the command line")]
pub(crate) struct ResultArgs {
    /// Count requests within these limits: "ttft:500ms itl:50ms tpot:30ms e2e:2s" (no unit: ms)
    #[arg(long, value_name = "LIMITS", help_heading = HEADING)]
    goodput: Option<Slo>,
    /// Find the highest arrival rate that the server keeps up with, from --rate on [first rate: 1]
    #[arg(long, conflicts_with_all = ["concurrency", "requests"], help_heading = HEADING)]
    pub(super) sweep: bool,
    /// Sweep: rates tried at most
    #[arg(long, value_name = "N", default_value_t = defaults::SWEEP_STEPS, requires = "sweep", hide_short_help = true, help_heading = HEADING)]
    sweep_steps: u32,
    /// Sweep: share of the requests that must be within --goodput
    #[arg(long, value_name = "SHARE", default_value_t = defaults::GOOD_SHARE, requires_all = ["sweep", "goodput"], hide_short_help = true, help_heading = HEADING)]
    good_share: f64,
    /// Draw the results into a page
    #[arg(long, value_name = "FILE.html", help_heading = HEADING)]
    pub(crate) html: Option<PathBuf>,
    /// Write one line of JSON per measured request
    #[arg(long, value_name = "FILE.jsonl", help_heading = HEADING)]
    pub(crate) export: Option<PathBuf>,
    /// Interval of the time series
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::positive, hide_short_help = true, help_heading = HEADING)]
    interval: Duration,
    /// Largest p99 of the generator's own lag; beyond it the run is invalid
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = units::positive, hide_short_help = true, help_heading = HEADING)]
    lag_max: Duration,
    /// Keep a run whose generator was late
    #[arg(long, help_heading = HEADING)]
    allow_late: bool,
    /// Print the report as JSON
    #[arg(long, help_heading = HEADING)]
    pub(crate) json: bool,
    /// Show no progress bar
    #[arg(long, help_heading = HEADING)]
    pub(crate) quiet: bool,
}

impl ResultArgs {
    pub(super) fn sweep(&self) -> Option<SweepConfig> {
        self.sweep.then_some(SweepConfig {
            steps_max: self.sweep_steps,
            good_share_min: self.good_share,
            precision: defaults::SWEEP_PRECISION,
        })
    }

    pub(super) fn report(&self) -> ReportConfig {
        ReportConfig {
            slo: self.goodput.unwrap_or_default(),
            interval: self.interval,
            lag_max: self.lag_max,
            late_allowed: self.allow_late,
        }
    }
}
