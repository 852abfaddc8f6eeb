//! `cargo xtask conformance`: one suite of the vLLM contract, against the mock and against real engines.
//!
//! The suite is the integration test `conformance` of `tito-testkit`. It is told what to talk to:
//!
//! | variable | value |
//! | --- | --- |
//! | `TITO_CONFORMANCE_KIND` | `mock`, `light`, `dense` or `dense-priority` |
//! | `TITO_CONFORMANCE_GRPC` | `host:port` of the engine's gRPC services; absent for `mock` |
//! | `TITO_CONFORMANCE_HTTP` | `host:port` of the engine's HTTP server; absent for `mock` |
//! | `TITO_CONFORMANCE_SKIPPED` | file to which the suite adds the name of each case that the engine cannot show |
//!
//! The kinds `dense-tight` and `dense-priority` are the dense engine with few blocks, short chunks of prefill and KV events,
//! under either scheduling policy. They run the areas of the suite that need such an engine.
//!
//! The kinds `vl` and `dp2` are for exact routing: `tito serve` over two engines that take media, and over one engine of two
//! data-parallel ranks, both with KV events. Those tests are in `crates/cli/tests/system/exact`, where simulated engines
//! take the same part on every `cargo test`; `TITO_EXACT_ENGINES` names the real ones, `host:port` each.
//!
//! For `mock` the suite starts a mock of its own, as it does on every `cargo test`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, bail};

use crate::Verdict;
use crate::engine_kit::{KitArgs, RunningEngine};
use crate::process;
use crate::table;
use crate::workspace::Workspace;

/// The tests of exact routing, which are the binary's own: they need a router in front of engines that publish events.
const EXACT: [&str; 5] = ["test", "--package", "tito", "--test", "system"];

/// The suite, for cargo.
const SUITE: [&str; 5] = ["test", "--package", "tito-testkit", "--test", "conformance"];

/// Arguments of `cargo xtask conformance`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to test; give it several times for several columns.
    #[arg(long = "engine", value_enum, required = true)]
    engines: Vec<EngineKind>,
    #[command(flatten)]
    kit: KitArgs,
    /// Run only the tests whose names contain this.
    filter: Option<String>,
}

/// What the suite talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum EngineKind {
    /// The look-alike, in the suite's own process.
    Mock,
    /// The real vllm-rs over a scripted engine.
    Light,
    /// Real vLLM on CPU with a small dense model.
    Dense,
    /// The same with few blocks and KV events.
    DenseTight,
    /// The same with the priority policy, too.
    DensePriority,
    /// Two real vLLM on CPU that take images, behind a router.
    Vl,
    /// One real vLLM on CPU with two data-parallel ranks, behind a router.
    Dp2,
}

impl EngineKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Mock => "mock",
            Self::Light => "light",
            Self::Dense => "dense",
            Self::DenseTight => "dense-tight",
            Self::DensePriority => "dense-priority",
            Self::Vl => "vl",
            Self::Dp2 => "dp2",
        }
    }
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// The engine cannot show it.
    Skipped,
}

/// How each test of one run ended, by name.
type Outcomes = BTreeMap<String, Outcome>;

/// Arguments of the real engine. One request at a time proves that a queued one is dropped, too.
const DENSE_ARGS: [&str; 2] = ["--max-num-seqs", "1"];

/// Blocks of an engine with few of them, for the kit. What the suite takes for few is in its `needs.rs`.
const TIGHT_KIT_ARGS: [&str; 2] = ["--blocks", "24"];

/// A sequence can use every block, and a long prompt takes several steps.
const TIGHT_ARGS: [&str; 6] =
    ["--max-model-len", "736", "--max-num-batched-tokens", "128", "--max-num-seqs", "8"];

/// Where ports for KV events are looked for: below the ephemeral ports of Linux, which begin at 32,768.
const EVENTS_PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Most ranks of an engine that is started here; each has ports of its own.
const EVENTS_RANKS_MAX: u16 = 2;
/// How far the kit puts the port of the replay behind that of the events.
const REPLAY_OFFSET: u16 = 500;

/// Urgent requests first.
const PRIORITY_ARGS: [&str; 2] = ["--scheduling-policy", "priority"];

/// The areas that need an engine with few blocks.
const TIGHT_AREAS: [&str; 2] = ["scheduling::", "events::"];

/// Runs the suite against each engine in turn and prints the matrix.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Verdict> {
    let mut engines = args.engines.clone();
    engines.sort_unstable();
    engines.dedup();
    // An engine would only wait while the suite compiles.
    if !process::succeeds(process::cargo(&workspace.root, &SUITE).arg("--no-run"))? {
        bail!("the suite does not build");
    }
    let mut columns = Vec::new();
    let mut holds = true;
    for engine in engines {
        // What the other engines showed is worth printing even when one does not start.
        let tested = match engine {
            EngineKind::Vl | EngineKind::Dp2 => exact(workspace, args, engine),
            EngineKind::Mock
            | EngineKind::Light
            | EngineKind::Dense
            | EngineKind::DenseTight
            | EngineKind::DensePriority => test(workspace, args, engine),
        };
        let (outcomes, success) = tested.unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", engine.as_str());
            (Outcomes::new(), false)
        });
        if success && outcomes.is_empty() {
            eprintln!("{}: no test ran", engine.as_str());
        }
        holds &= success && !outcomes.is_empty();
        columns.push((engine.as_str(), outcomes));
    }
    let today = process::output(&workspace.root, &["date", "-u", "+%F"])?;
    print!("\nvLLM contract, {}\n\n{}", today.trim(), matrix(&columns));
    Ok(Verdict::of(holds))
}

/// Runs the suite against one engine, which is stopped before this returns.
fn test(workspace: &Workspace, args: &Args, engine: EngineKind) -> Result<(Outcomes, bool)> {
    let running = match engine {
        EngineKind::Light => Some(args.kit.start(engine.as_str(), "conformance", &[], &[])?),
        EngineKind::Dense => Some(args.kit.start(engine.as_str(), "conformance", &[], &DENSE_ARGS)?),
        EngineKind::DenseTight => Some(start_tight(args, &TIGHT_ARGS)?),
        EngineKind::DensePriority => Some(start_tight(args, &[&TIGHT_ARGS[..], &PRIORITY_ARGS].concat())?),
        EngineKind::Mock | EngineKind::Vl | EngineKind::Dp2 => None,
    };
    let (kind, areas): (&str, &[&str]) = match engine {
        EngineKind::DenseTight => (EngineKind::Dense.as_str(), &TIGHT_AREAS),
        EngineKind::DensePriority => (engine.as_str(), &TIGHT_AREAS),
        EngineKind::Mock | EngineKind::Light | EngineKind::Dense | EngineKind::Vl | EngineKind::Dp2 => {
            (engine.as_str(), &[])
        }
    };
    let skipped =
        std::env::temp_dir().join(format!("tito-skipped-{}-{}", engine.as_str(), std::process::id()));
    let mut suite = process::cargo(&workspace.root, &SUITE);
    match &args.filter {
        Some(filter) => suite.arg("--").arg(filter),
        None => suite.arg("--").args(areas),
    };
    suite.env("TITO_CONFORMANCE_KIND", kind);
    suite.env("TITO_CONFORMANCE_SKIPPED", &skipped);
    match &running {
        Some(running) => {
            suite.env("TITO_CONFORMANCE_GRPC", &running.grpc).env("TITO_CONFORMANCE_HTTP", &running.http)
        }
        None => suite.env_remove("TITO_CONFORMANCE_GRPC").env_remove("TITO_CONFORMANCE_HTTP"),
    };
    let mut outcomes = Outcomes::new();
    let status = process::watched(&mut suite, |line| outcomes.extend(outcome(line)))?;
    if let Ok(names) = std::fs::read_to_string(&skipped) {
        mark_skipped(&mut outcomes, &names);
        std::fs::remove_file(&skipped)?;
    }
    Ok((outcomes, status.success()))
}

/// Starts a dense engine of few blocks that publishes its events.
fn start_tight(args: &Args, engine_args: &[&str]) -> Result<RunningEngine> {
    let port = events_port()?.to_string();
    let kit_args = [&TIGHT_KIT_ARGS[..], &["--kv", port.as_str()]].concat();
    args.kit.start("dense", "conformance-tight", &kit_args, engine_args)
}

/// Runs the tests of exact routing over real engines, which are stopped before this returns.
fn exact(workspace: &Workspace, args: &Args, engine: EngineKind) -> Result<(Outcomes, bool)> {
    if !process::succeeds(process::cargo(&workspace.root, &EXACT).arg("--no-run"))? {
        bail!("the tests of exact routing do not build");
    }
    let start = |kind, purpose: &str, more: &[&str]| {
        let port = events_port()?.to_string();
        args.kit.start(kind, purpose, &[&["--kv", port.as_str()], more].concat(), &[])
    };
    let (running, tests) = if engine == EngineKind::Dp2 {
        (vec![start("dense", "conformance-dp2", &["--dp", "2"])?], "exact::ranks::")
    } else {
        let engines = ["conformance-1", "conformance-2"].map(|purpose| start("vl", purpose, &[]));
        (engines.into_iter().collect::<Result<_>>()?, "exact::distinct")
    };
    let addresses: Vec<&str> = running.iter().map(|engine| engine.grpc.as_str()).collect();
    let mut suite = process::cargo(&workspace.root, &EXACT);
    suite.arg("--").arg(args.filter.as_deref().unwrap_or(tests)).arg("--test-threads=1");
    suite.env("TITO_EXACT_ENGINES", addresses.join(","));
    let mut outcomes = Outcomes::new();
    let status = process::watched(&mut suite, |line| outcomes.extend(outcome(line)))?;
    Ok((outcomes, status.success()))
}

/// A port for KV events, free a moment ago, as are those after it that the kit takes: it takes no 0 here. Ports of the
/// ephemeral range could become the end of a connection at any time.
fn events_port() -> Result<u16> {
    let first = std::process::id() as usize;
    let ports = EVENTS_PORTS.step_by(usize::from(EVENTS_RANKS_MAX));
    let port = ports.clone().cycle().skip(first % ports.len()).take(ports.len()).find(|port| has_room(*port));
    port.with_context(|| format!("no port from {} up is free for KV events", EVENTS_PORTS.start))
}

/// Whether the events and the replay of every rank find their port free.
fn has_room(port: u16) -> bool {
    let free = |port: u16| std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    (0..EVENTS_RANKS_MAX).all(|rank| free(port + rank) && free(port + REPLAY_OFFSET + rank))
}

/// A case that says it was skipped has not passed.
fn mark_skipped(outcomes: &mut Outcomes, names: &str) {
    for (test, outcome) in outcomes {
        let named = |case: &str| test == case || test.ends_with(&format!("::{case}"));
        if *outcome == Outcome::Passed && names.lines().any(named) {
            *outcome = Outcome::Skipped;
        }
    }
}

/// The test and its result in a line such as `test unary::greedy ... ok`.
fn outcome(line: &str) -> Option<(String, Outcome)> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match result {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        _ => return None,
    };
    Some((name.to_owned(), outcome))
}

/// One row per test, one column per engine, and the sums.
fn matrix(columns: &[(&str, Outcomes)]) -> String {
    let names: BTreeSet<&String> = columns.iter().flat_map(|(_, outcomes)| outcomes.keys()).collect();
    let mut rows = Vec::new();
    for name in names {
        let cells = columns.iter().map(|(_, outcomes)| match outcomes.get(name) {
            Some(Outcome::Passed) => "passed",
            Some(Outcome::Failed) => "FAILED",
            Some(Outcome::Skipped) => "skipped",
            None => "not run",
        });
        rows.push([name.as_str()].into_iter().chain(cells).map(str::to_owned).collect());
    }
    let sum = |outcomes: &Outcomes| {
        format!(
            "{} of {}",
            outcomes.values().filter(|outcome| **outcome == Outcome::Passed).count(),
            outcomes.len()
        )
    };
    let sums = columns.iter().map(|(_, outcomes)| sum(outcomes));
    rows.push([String::from("**passed**")].into_iter().chain(sums).collect());
    let header: Vec<&str> = ["test"].into_iter().chain(columns.iter().map(|(engine, _)| *engine)).collect();
    table::markdown(&header, &rows)
}

#[cfg(test)]
mod tests;
