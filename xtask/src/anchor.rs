//! `cargo xtask anchor`: the simulated engine of `tito replay` held against real vLLM.
//!
//! `record` starts vLLM on CPU with the flags of `fixtures/replay/dense.json`, serves generated conversations and writes what
//! it did to `fixtures/replay/dense.jsonl`: the example `record` of `tito-testkit`. `fit` runs the same trace through the
//! simulation and fits how long its steps take to the first half of the recording: the example `fit` of `tito-replay`. A
//! test of `tito-replay` holds the simulation against the second half.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::Verdict;
use crate::engine_kit::KitArgs;
use crate::process;
use crate::workspace::Workspace;

/// The recording.
const RECORDING: &str = "fixtures/replay/dense.jsonl";
/// The engine that made it, and how long its steps take.
const ENGINE: &str = "fixtures/replay/dense.json";

/// Arguments of `cargo xtask anchor`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(clap::Subcommand)]
enum Step {
    /// Serve generated conversations on a real engine and record what it did. The machine should do nothing else.
    Record(Record),
    /// Fit the simulated engine to the first half of the recording.
    Fit,
}

#[derive(clap::Args)]
struct Record {
    #[command(flatten)]
    kit: KitArgs,
    /// Seed of the conversations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Conversations that begin per second, on average.
    #[arg(long, default_value_t = 0.5)]
    rate: f64,
    /// Time in which they begin, in seconds.
    #[arg(long, default_value_t = 240.0)]
    seconds: f64,
}

/// Runs one step.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Verdict> {
    match &args.step {
        Step::Record(args) => record(workspace, args),
        Step::Fit => {
            let fit = ["run", "--release", "--package", "tito-replay", "--example", "fit", "--"];
            let mut fit = process::cargo(&workspace.root, &fit);
            Ok(Verdict::of(process::succeeds(fit.args([RECORDING, ENGINE]))?))
        }
    }
}

fn record(workspace: &Workspace, args: &Record) -> Result<Verdict> {
    let text = std::fs::read_to_string(format!("{}/{ENGINE}", workspace.root)).context(ENGINE)?;
    let engine: Value = serde_json::from_str(&text).context(ENGINE)?;
    let flag = |name: &str| -> Result<String> {
        let number = engine[name].as_u64();
        Ok(number.with_context(|| format!("{ENGINE} has no number {name}"))?.to_string())
    };
    let example = ["build", "--package", "tito-testkit", "--example", "record"];
    if !process::succeeds(&mut process::cargo(&workspace.root, &example))? {
        bail!("the recorder does not build");
    }
    let (block_tokens, blocks) = (flag("block_tokens")?, flag("num_gpu_blocks")?);
    let (sequences, tokens) = (flag("max_num_seqs")?, flag("max_num_batched_tokens")?);
    let more = engine["more_args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut engine_args = vec!["--max-num-seqs", &sequences, "--max-num-batched-tokens", &tokens];
    engine_args.extend(more);
    let running = args.kit.start("dense", "anchor", &["--blocks", &blocks], &engine_args)?;
    let mut recorder = std::process::Command::new(format!("{}/debug/examples/record", workspace.target));
    recorder.current_dir(&workspace.root).args([&running.grpc, RECORDING, &block_tokens]);
    recorder.args([args.seed.to_string(), args.rate.to_string(), args.seconds.to_string()]);
    Ok(Verdict::of(process::succeeds(&mut recorder)?))
}
