//! `cargo xtask drift`: request after request under eviction, and what was predicted of each held against what the engine
//! reported.
//!
//! The run is the test `drift::what_is_predicted_is_what_engines_report` of `tito-testkit`, which every `cargo test` runs for
//! a few seconds; `TITO_DRIFT_SECS` says for how long.

use anyhow::Result;

use crate::stages::Ending;
use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::{Verdict, process};

/// The test, for cargo. Without debug checks it makes many times more requests.
const TEST: [&str; 8] =
    ["test", "--release", "--package", "tito-testkit", "--test", "events", "--", "--nocapture"];
const NAME: &str = "drift::what_is_predicted_is_what_engines_report";

/// Arguments of `cargo xtask drift`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long requests are made.
    #[arg(long, default_value_t = 10, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
}

/// Runs the test on this terminal. A test that is not there has shown nothing.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Verdict> {
    let mut test = process::cargo(&workspace.root, &TEST);
    test.args(["--exact", NAME]).env("TITO_DRIFT_SECS", (args.minutes * 60).to_string());
    let mut tally = Tally::default();
    let status = process::watched(&mut test, |line| tally.add(line))?;
    let ending = tally.ending(status);
    if let Ending::Failed(detail) | Ending::Skipped(detail) = &ending {
        eprintln!("drift: {NAME}: {detail}");
    }
    Ok(Verdict::of(matches!(ending, Ending::Passed(_))))
}
