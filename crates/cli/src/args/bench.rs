mod load;
mod results;
mod target;
mod work;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use tito_bench::{BenchConfig, Limits, SweepConfig, Target, Trust, defaults};

pub(crate) use results::ResultArgs;

use crate::units;

/// Load on one server, or on several in turns.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    targets: target::TargetArgs,
    #[command(flatten)]
    work: work::WorkArgs,
    #[command(flatten)]
    load: load::LoadArgs,

    /// Longest wait for one whole reply
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::positive, help_heading = "Limits")]
    timeout: Duration,
    /// Largest unary reply, and largest single event of a stream
    #[arg(long, hide_short_help = true, value_name = "BYTES", default_value = "64MiB", value_parser = units::bytes, help_heading = "Limits")]
    reply_bytes_max: usize,
    /// Give up after this many failed requests
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = defaults::FAILURES_MAX, help_heading = "Limits")]
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
    /// What is to be said before a measurement that should not be believed blindly.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        self.targets.warning()
    }

    pub(crate) fn into_bench(self) -> anyhow::Result<Bench> {
        let targets = self.targets.targets()?;
        self.check_files(&targets)?;
        let mut targets = targets.into_iter();
        let workload = self.work.workload(self.load.requests)?;
        let config = BenchConfig {
            target: targets.next().ok_or_else(|| anyhow::anyhow!("no URL is given"))?,
            load: self.load.load(&workload.prompts, self.results.sweep),
            workload,
            limits: Limits {
                request_timeout: self.timeout,
                reply_bytes_max: self.reply_bytes_max,
                failures_max: self.failures_max,
            },
            warmup_requests: self.load.warmup,
            report: self.results.report(),
        };
        let (others, sweep): (Vec<_>, _) = (targets.collect(), self.results.sweep());
        anyhow::ensure!(sweep.is_none() || others.is_empty(), "--sweep measures one server, not several");
        Ok(Bench { config, others, rounds: self.load.rounds, sweep })
    }

    /// No file is written that is also read, or written twice.
    fn check_files(&self, targets: &[Target]) -> anyhow::Result<()> {
        let authorities = targets.iter().filter_map(|target| match &target.trust {
            Trust::File(path) => Some(("--cacert", path.as_path())),
            Trust::PublicRoots | Trust::Anyone => None,
        });
        let mut taken: Vec<_> = self.work.files().chain(authorities).collect();
        for (option, path) in [("--export", &self.results.export), ("--html", &self.results.html)] {
            let Some(path) = path.as_deref() else { continue };
            if let Some((other, _)) = taken.iter().find(|(_, file)| one_file(file, path)) {
                anyhow::bail!("{option} {}: is the file of {other} too", path.display());
            }
            taken.push((option, path));
        }
        Ok(())
    }
}

/// True when both paths lead to one regular file, whatever it is called, or would make it.
fn one_file(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => one == other,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

#[cfg(test)]
mod tests;
