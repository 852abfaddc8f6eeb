//! `tito replay`: what each policy would have done with a trace.

mod table;
mod trace;

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use serde::Serialize;
use tito_bench::{Progress, Total};
use tito_replay::{Error, ReplayConfig, Report, TraceRequest};

use crate::args::{PlotKind, ReplayArgs};
use crate::process;

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    seed: u64,
    /// Arrivals, as a multiple of the recorded speed.
    speed: f64,
    worker: Worker,
    /// One per number of workers, in the order they were asked for.
    replays: &'a [Report],
}

/// What each worker was. Times in seconds.
#[derive(Serialize)]
struct Worker {
    block_tokens: u32,
    kv_tokens: u64,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    step_time: f64,
    prefill_time_per_token: f64,
    decode_time: f64,
    target_limit: u32,
    event_delay: f64,
}

/// Why a replay did not happen.
enum Failure {
    /// The command line asks for what cannot be.
    Usage(String),
    Work(anyhow::Error),
}

pub(crate) fn run(args: &ReplayArgs) -> ExitCode {
    match replay(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(problem)) => process::usage(&[problem]),
        Err(Failure::Work(error)) => process::failed(&error),
    }
}

fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let trace = trace::read(&args.trace, args.requests, args.block_tokens.get()).map_err(Failure::Work)?;
    let progress = tito_bench::bar(args.json || args.quiet);
    let mut reports = Vec::with_capacity(args.workers.len());
    for &workers in &args.workers {
        let report = one(&trace, &args.config(workers), progress.as_ref());
        reports.push(report.map_err(|error| failure(error, args))?);
    }
    show(args, &reports).map_err(Failure::Work)
}

/// All policies over one fleet.
fn one(trace: &[TraceRequest], config: &ReplayConfig, progress: &dyn Progress) -> Result<Report, Error> {
    let total = trace.len() * config.policies.len();
    progress.begin(&format!("{} workers", config.workers), Total::Requests(total as u64));
    let mut told = 0;
    let report = tito_replay::run(trace, config, &mut |done, _| {
        (told..done).for_each(|_| progress.finished(true));
        told = done;
    });
    progress.end();
    report
}

fn failure(error: Error, args: &ReplayArgs) -> Failure {
    let path = args.trace.display();
    match error {
        // A request is a line.
        Error::Request(index) => {
            Failure::Work(anyhow!("{path}:{}: its time or a length is out of range", index + 1))
        }
        Error::EmptyTrace => Failure::Work(anyhow!("{path}: {error}")),
        Error::Workers | Error::NoPolicy | Error::Direct | Error::Speed | Error::Engine | Error::Blocks => {
            Failure::Usage(error.to_string())
        }
    }
}

/// A file that cannot be written costs the plot only.
fn show(args: &ReplayArgs, reports: &[Report]) -> anyhow::Result<()> {
    if args.json {
        process::print(&format!("{}\n", serde_json::to_string_pretty(&printed(args, reports))?))?;
    } else {
        process::print(&table::render(reports))?;
    }
    if let Some((path, kind)) = &args.plot {
        let text = match kind {
            PlotKind::Svg => tito_replay::svg(reports),
            PlotKind::Html => tito_replay::html(reports),
        };
        std::fs::write(path, text).with_context(|| format!("--plot {}", path.display()))?;
    }
    Ok(())
}

fn printed<'a>(args: &ReplayArgs, replays: &'a [Report]) -> Printed<'a> {
    let ReplayConfig { engine, in_flight_max, event_delay, .. } = args.config(1);
    let worker = Worker {
        block_tokens: engine.block_tokens,
        kv_tokens: engine.capacity_tokens,
        max_num_seqs: engine.running_max,
        max_num_batched_tokens: engine.step_tokens_max,
        step_time: engine.timing.step.as_secs_f64(),
        prefill_time_per_token: engine.timing.prefill_token.as_secs_f64(),
        decode_time: engine.timing.decode_sequence.as_secs_f64(),
        target_limit: in_flight_max,
        event_delay: event_delay.as_secs_f64(),
    };
    Printed { seed: args.seed, speed: args.speed, worker, replays }
}
