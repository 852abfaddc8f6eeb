//! What each command takes. One struct per command; the names of settings live here and nowhere else.

mod bench;
mod demo;
mod mock;
mod replay;
mod serve;
mod workers;

pub(crate) use bench::{Bench, BenchArgs};
pub(crate) use demo::DemoArgs;
pub(crate) use mock::MockArgs;
pub(crate) use replay::{PlotKind, REQUESTS_MAX, ReplayArgs};
pub(crate) use serve::{Affinity, GenerationConfig, LogFormat, ServeArgs, SiblingsRule};
pub(crate) use workers::{ResetArgs, WorkersAction, WorkersArgs};

use clap::{Args, Command, CommandFactory, Parser, Subcommand};

/// Token-in, token-out serving for LLM fleets.
#[derive(Debug, Parser)]
#[command(name = "tito", version, max_term_width = 120, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Serve one HTTP address in front of vLLM engines
    Serve(Box<ServeArgs>),
    /// Check the settings of serve and show each value and where it came from
    Check(CheckArgs),
    /// Run a simulated vLLM engine: gRPC and HTTP, with faults on demand
    #[command(override_usage = "tito mock [MODEL] [OPTIONS]")]
    Mock(Box<MockArgs>),
    /// Serve two simulated engines, send them requests and show what happened
    Demo(DemoArgs),
    /// Measure a server: latency, throughput, and what it costs
    Bench(Box<BenchArgs>),
    /// Show the workers of a running server, or make them drop their caches
    Workers(WorkersArgs),
    /// Replay a trace of requests over simulated workers and compare the routing policies
    Replay(Box<ReplayArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) serve: Box<ServeArgs>,
}

/// Said once instead of on every line.
const ELSEWHERE: &str = "Each flag is also TITO_<FLAG> in the environment (--max-queued: TITO_MAX_QUEUED) and a key of the \
     --config file (max-queued = 64).\nA flag beats the environment, which beats the file. TIME: 250ms, 10s, 5m; \
     BYTES: 64KiB, 32MiB.";

/// Commands that take their settings from a file and the environment too.
pub(crate) const WITH_SETTINGS: [&str; 2] = ["serve", "check"];

/// The whole command line.
pub(crate) fn command() -> Command {
    let mut command = Cli::command();
    for name in WITH_SETTINGS {
        command = command.mut_subcommand(name, |settings| {
            // A negative number is a wrong value, not an unknown flag.
            settings.mut_args(from_env).after_help(ELSEWHERE).allow_negative_numbers(true)
        });
    }
    command
}

/// Every setting can also come from `TITO_<FLAG>`.
fn from_env(arg: clap::Arg) -> clap::Arg {
    let Some(long) = arg.get_long().filter(|long| !matches!(*long, "help" | "json")) else { return arg };
    let name = format!("TITO_{}", long.to_uppercase().replace('-', "_"));
    arg.env(name).hide_env(true)
}

#[cfg(test)]
mod tests;
