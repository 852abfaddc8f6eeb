//! What a case needs of its engine: why it is skipped where the engine cannot show it, and how a mock is made to.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use tito_mock::{KvEventsConfig, MockConfig, SchedulingPolicy, Timing};

use crate::target::{Feature, Kind, Target};

/// Time between two tokens of a slow mock.
const SLOW_STEP: Duration = Duration::from_millis(8);
/// KV blocks of an engine with few of them; xtask starts real ones with as many.
const FEW_BLOCKS: u32 = 24;
/// Tokens that such an engine computes in a step.
const FEW_BLOCKS_STEP_TOKENS: u32 = 128;

/// Something that not every engine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Tokens that depend on the prompt and on sampling parameters.
    Model,
    /// `kv_transfer_params.script` steers the output.
    Scripts,
    /// A full context takes seconds. Real engines are slow by nature; a scripted one is asked per request.
    Slow,
    /// One request runs, the others queue. An engine that runs more shows less, and the case says so.
    OneAtATime,
    /// More than one request runs at a time.
    SeveralAtATime,
    /// A pool of a few blocks, of which one sequence can use all, and prompts in chunks that are shorter than it.
    FewBlocks,
    /// Requests start in the order in which they came.
    Fcfs,
    /// Urgent requests start first.
    Priority,
    /// The engine is the case's own to end.
    Disposable,
    /// Nobody used the engine before.
    Fresh,
    /// An HTTP address.
    Http,
    /// No KV connector.
    NoConnector,
    /// KV events are published.
    KvEvents,
    /// KV events are not published.
    KvEventsOff,
    /// A weight-transfer backend whose order of calls is real.
    WeightTransfer,
    /// No weight-transfer backend.
    WeightTransferOff,
    /// No adapters.
    LoraOff,
    /// No sleep mode.
    SleepOff,
}

impl Need {
    /// Why a target does not have it. The only list of reasons for a skip.
    fn missing(self, target: &Target) -> Option<&'static str> {
        let has = |feature| target.facts.has(feature);
        let light = target.kind == Kind::Light;
        let (met, reason) = match self {
            Self::Model => (!light, "the scripted engine has no model: it counts letters"),
            Self::Scripts => (target.kind != Kind::Dense, "a real engine takes no script"),
            Self::Slow | Self::OneAtATime => (true, ""),
            Self::SeveralAtATime => (target.facts.running_max > 1, "the engine runs one request at a time"),
            Self::FewBlocks => {
                (!light && target.facts.blocks <= FEW_BLOCKS, "the engine has room for many sequences")
            }
            Self::Fcfs => (!has(Feature::Priority), "the engine was started with the priority policy"),
            Self::Priority => (has(Feature::Priority), "the engine was started without the priority policy"),
            Self::Disposable => (target.disposable, "a shared engine must outlive the suite"),
            Self::Fresh => (target.kind == Kind::Mock, "a shared engine may have been used before"),
            Self::Http => (target.http.is_some(), "TITO_CONFORMANCE_HTTP names no address"),
            Self::NoConnector => (!light, "the scripted engine answers transfer parameters"),
            Self::KvEvents => (has(Feature::KvEvents), "the engine was started without KV events"),
            Self::KvEventsOff => (!has(Feature::KvEvents), "the engine was started with KV events"),
            Self::WeightTransfer => (
                has(Feature::WeightTransfer) && !light,
                "the engine was started without a weight-transfer backend, or is scripted",
            ),
            Self::WeightTransferOff => {
                (!has(Feature::WeightTransfer), "the engine was started with a weight-transfer backend")
            }
            Self::LoraOff => (!has(Feature::Lora), "the engine was started with adapters"),
            Self::SleepOff => (!has(Feature::SleepMode), "the engine was started with sleep mode"),
        };
        (!met).then_some(reason)
    }

    /// Makes a mock that has it.
    pub(crate) fn configure(self, config: &mut MockConfig) {
        match self {
            Self::Scripts => (config.scripts, config.kv_connector) = (true, true),
            Self::Slow => config.timing = Timing { step: SLOW_STEP, speed: 1.0, ..Timing::INSTANT },
            Self::OneAtATime => config.max_num_seqs = 1,
            Self::FewBlocks => {
                config.num_gpu_blocks = FEW_BLOCKS;
                config.max_model_len = (FEW_BLOCKS - 1) * config.block_size;
                config.max_num_batched_tokens = FEW_BLOCKS_STEP_TOKENS;
            }
            Self::Priority => config.scheduling_policy = SchedulingPolicy::Priority,
            Self::KvEvents => {
                let replay_endpoint = Some("tcp://*:0".to_owned());
                let endpoint = "tcp://*:0".to_owned();
                let on = KvEventsConfig {
                    enable_kv_cache_events: true,
                    endpoint,
                    replay_endpoint,
                    ..KvEventsConfig::default()
                };
                config.kv_events = Some(on);
            }
            Self::WeightTransfer => config.weight_transfer_backend = Some("nccl".to_owned()),
            Self::Model
            | Self::SeveralAtATime
            | Self::Fcfs
            | Self::Disposable
            | Self::Fresh
            | Self::Http
            | Self::NoConnector
            | Self::KvEventsOff
            | Self::WeightTransferOff
            | Self::LoraOff
            | Self::SleepOff => {}
        }
    }
}

/// Why this target cannot show a case that needs these.
pub(crate) fn why_not(needs: &[Need], target: &Target) -> Option<&'static str> {
    needs.iter().find_map(|need| need.missing(target))
}

/// Says something that the test harness does not swallow when the test passes.
pub(crate) fn say(line: &str) {
    // A closed standard error is nobody's fault, and nothing depends on the line.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Says that a case is skipped, and writes its name where the runner of the suite looks for it.
#[expect(clippy::disallowed_methods, reason = "the suite is told what to do by its runner's environment")]
pub(crate) fn skipped(case: &str, reason: &str) {
    say(&format!("skipped: {case}: {reason}"));
    let Ok(path) = std::env::var("TITO_CONFORMANCE_SKIPPED") else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| writeln!(file, "{case}"));
    written.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Prints how many cases this target skips, by reason.
pub(crate) fn report(cases: &[(&str, &str, &[Need])], target: &Target) {
    let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, _, needs) in cases {
        // A mock is made to have what a case needs.
        if target.kind != Kind::Mock
            && let Some(reason) = why_not(needs, target)
        {
            *skipped.entry(reason).or_default() += 1;
        }
    }
    for (reason, count) in &skipped {
        say(&format!("{:?}: {count} cases are skipped: {reason}", target.kind));
    }
    say(&format!("{:?}: {} cases, {} skipped", target.kind, cases.len(), skipped.values().sum::<usize>()));
    assert!(cases.len() > 100, "the suite lost most of its cases: {} are left", cases.len());
}
