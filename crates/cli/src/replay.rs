//! `tito replay`: what each policy would have done with a trace.

mod table;
mod trace;

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use serde::Serialize;
use tito_bench::{Progress, Total};
use tito_replay::{Arrivals, Error, ReplayConfig, Report, TraceRequest};

use crate::args::{PlotKind, ReplayArgs};
use crate::process;

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    seed: u64,
    /// Arrivals, as a multiple of the recorded speed.
    speed: f64,
    /// Tokens.
    trace_block_size: u32,
    closed_loop: bool,
    session_affinity: bool,
    partial_workers: u32,
    worker: Worker,
    /// One per number of workers, in the order they were asked for.
    replays: &'a [Report],
}

/// What each worker was. Times in seconds.
#[derive(Serialize)]
struct Worker {
    block_size: u32,
    kv_tokens: u64,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    step_time: f64,
    prefill_time_per_token: f64,
    prefill_attention_time: f64,
    decode_time: f64,
    decode_context_time: f64,
    request_time: f64,
    target_limit: u32,
    event_delay: f64,
    event_jitter: f64,
    event_loss: f64,
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
    let trace =
        trace::read(&args.trace, args.requests, args.trace_block_size.get()).map_err(Failure::Work)?;
    let progress = tito_bench::bar(args.json || args.quiet);
    let mut reports = Vec::with_capacity(args.workers.len());
    for &workers in &args.workers {
        let report = one(&trace, &args.config(workers), progress.as_ref());
        reports.push(report.map_err(|error| failure(error, args))?);
    }
    show(args, &reports).map_err(Failure::Work)?;
    // Room is per worker: what fits no worker of one fleet fits none of any other.
    let served = |report: &Report| report.policies.iter().any(|policy| policy.completed > 0);
    if reports.iter().any(served) {
        return Ok(());
    }
    let room = args.config(1).engine.capacity_tokens;
    Err(Failure::Work(anyhow!("nothing was served: no request fits --kv-tokens {room}")))
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
        Error::Workers
        | Error::NoPolicy
        | Error::Direct
        | Error::Speed
        | Error::Engine
        | Error::Blocks
        | Error::TraceBlock
        | Error::Loss
        | Error::Partial => Failure::Usage(error.to_string()),
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
    let config = args.config(1);
    let (engine, timing, events) = (config.engine, config.engine.timing, config.events);
    let worker = Worker {
        block_size: engine.block_tokens,
        kv_tokens: engine.capacity_tokens,
        max_num_seqs: engine.running_max,
        max_num_batched_tokens: engine.step_tokens_max,
        step_time: timing.step.as_secs_f64(),
        prefill_time_per_token: timing.prefill_token.as_secs_f64(),
        prefill_attention_time: timing.prefill_attention.as_secs_f64(),
        decode_time: timing.decode_sequence.as_secs_f64(),
        decode_context_time: timing.decode_context.as_secs_f64(),
        request_time: engine.request_time.as_secs_f64(),
        target_limit: config.in_flight_max,
        event_delay: events.delay.as_secs_f64(),
        event_jitter: events.jitter.as_secs_f64(),
        event_loss: events.loss,
    };
    Printed {
        seed: args.seed,
        speed: args.speed,
        trace_block_size: config.trace_block_tokens,
        closed_loop: config.arrivals == Arrivals::AfterReply,
        session_affinity: config.session_affinity,
        partial_workers: config.partial_workers,
        worker,
        replays,
    }
}
