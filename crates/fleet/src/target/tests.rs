use prometheus_client::registry::Registry;
use tito_kv_index::{IndexConfig, Prompt};
use tito_types::{
    Capabilities, EngineHash, Identity, KvCounters, Media, ModelInfo, Parallelism, StoredBlocks,
};

use super::*;

mod sizes;

pub(crate) fn info(kv_events: KvSupport, ranks: u32, first: u32) -> EngineInfo {
    EngineInfo {
        engine_version: "0".into(),
        instance_id: "i".into(),
        kv_events,
        pixels: None,
        identity: Identity {
            model: ModelInfo { source: "s".into(), names: vec!["m".into()], lora: false, multimodal: false },
            parallelism: Parallelism {
                data: 8,
                data_local: ranks,
                data_rank: first,
                ..Parallelism::default()
            },
            capabilities: Capabilities::default(),
            max_model_len: 64,
            kv_block_size: 4,
            total_kv_blocks: 101,
            max_running_requests: 8,
            max_batched_tokens: 64,
        },
    }
}

pub(crate) struct Bench {
    pub(crate) blocks: Blocks,
    pub(crate) targets: Vec<Arc<Target>>,
    fleet_metrics: FleetMetrics,
    registry: Registry,
}

impl Bench {
    pub(crate) fn new(kv_events: KvSupport, bytes_max: usize) -> Self {
        let mut registry = Registry::default();
        let blocks = Blocks::new(IndexConfig { bytes_max }, 7);
        let metrics = FleetMetrics::register(&mut registry);
        let targets = Target::of_engine(&blocks, &WorkerId::new("w"), &info(kv_events, 2, 2), &metrics);
        Self { blocks, targets, fleet_metrics: metrics, registry }
    }

    /// The ranks of another connection to the same worker.
    pub(crate) fn again(&self) -> Vec<Arc<Target>> {
        let worker = WorkerId::new("w");
        Target::of_engine(&self.blocks, &worker, &info(ON, 2, 2), &self.fleet_metrics)
    }

    /// Stores blocks of one sequence that begins with `first`.
    pub(crate) fn store(&self, rank: usize, first: u32, count: u32) {
        let stored = StoredBlocks {
            parent: None,
            hashes: (0..count).map(|at| EngineHash(u64::from(first) << 32 | u64::from(at))).collect(),
            tokens: (first..first + 4 * count).collect(),
            block_tokens: 4,
            tier: Tier::Gpu,
            adapter: None,
            adapter_id: None,
            salt: None,
            extras: Vec::new(),
        };
        self.targets[rank].apply(&self.blocks, KvNews::Events(vec![KvEvent::Stored(stored)]));
    }

    /// Leading blocks of such a sequence on each target that has any.
    pub(crate) fn found(&self, first: u32, count: u32) -> Vec<(TargetId, u32)> {
        let tokens: Vec<u32> = (first..first + 4 * count).collect();
        let prompt =
            Prompt { tokens: &tokens, media: &Media::None, adapter: None, salt: None, block_tokens: 4 };
        let mut found = Vec::new();
        self.blocks
            .find(&prompt.chain(self.blocks.hasher()), |target, _, leading| found.push((target, leading)));
        found
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("a string takes it");
        text
    }
}

pub(crate) const ON: KvSupport = KvSupport::On { replay: true };

#[test]
fn each_rank_has_its_number_its_share_of_the_room_and_its_own_blocks() {
    let bench = Bench::new(ON, 16 << 20);
    let seen: Vec<_> = bench.targets.iter().map(|target| (target.rank, target.capacity_tokens)).collect();
    assert_eq!(seen, [(2, 200), (3, 200)]);
    bench.store(1, 10, 3);
    assert_eq!(bench.found(10, 4), [(bench.targets[1].id, 3)]);
}

#[test]
fn what_is_known_goes_from_partial_to_complete_and_back_with_what_the_feed_says() {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    assert_eq!(target.report().state, "partial");
    target.apply(&bench.blocks, KvNews::Complete);
    bench.store(0, 10, 3);
    assert_eq!((target.report().state, target.complete()), ("complete", true));
    target.apply(&bench.blocks, KvNews::Partial("a gap".into()));
    let report = target.report();
    assert_eq!((report.state, report.reason.as_deref(), report.blocks), ("partial", Some("a gap"), [0; 3]));
    assert_eq!(bench.found(10, 3), []);
    assert!(bench.metrics().contains("kv_partials_total{worker=\"w\",rank=\"2\"} 1"), "{}", bench.metrics());
    let off = Bench::new(KvSupport::Off("it publishes none".into()), 16 << 20);
    assert_eq!(off.targets[0].report().state, "off");
}

#[test]
fn while_something_may_be_missing_blocks_are_kept_and_not_called_complete() {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    let partials = || {
        let text = bench.metrics();
        let name = "kv_partials_total{worker=\"w\",rank=\"2\"} ";
        text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned).expect("it is shown")
    };
    let gauge = |value| format!("kv_complete{{worker=\"w\",rank=\"2\"}} {value}");
    target.apply(&bench.blocks, KvNews::Complete);
    bench.store(0, 10, 3);
    target.apply(&bench.blocks, KvNews::Unproven);
    let report = target.report();
    let reason = "whether a batch is missing is being found out";
    assert_eq!((report.state, report.reason.as_deref(), report.blocks), ("partial", Some(reason), [3, 0, 0]));
    assert!(!target.complete() && bench.metrics().contains(&gauge(0)), "{}", bench.metrics());
    assert_eq!(bench.found(10, 3), [(target.id, 3)], "what is known still counts");
    target.apply(&bench.blocks, KvNews::Complete);
    assert_eq!((target.complete(), target.report().reason, partials()), (true, None, "0".to_owned()));
    assert!(bench.metrics().contains(&gauge(1)), "{}", bench.metrics());
    target.apply(&bench.blocks, KvNews::Unproven);
    target.apply(&bench.blocks, KvNews::Partial("a gap".into()));
    assert_eq!((target.report().blocks, partials()), ([0; 3], "1".to_owned()), "now it is lost");
    target.apply(&bench.blocks, KvNews::Unproven);
    assert_eq!(target.report().reason.as_deref(), Some("a gap"), "why it was not complete before stays");
}

#[test]
fn a_table_of_nothing_but_short_blocks_is_not_called_complete() {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    let store = |names: &[u64], tokens: &[u32]| {
        let stored = StoredBlocks {
            parent: None,
            hashes: names.iter().copied().map(EngineHash).collect(),
            tokens: tokens.to_vec(),
            block_tokens: (tokens.len() / names.len()) as u32,
            tier: Tier::Gpu,
            adapter: None,
            adapter_id: None,
            salt: None,
            extras: Vec::new(),
        };
        target.apply(&bench.blocks, KvNews::Events(vec![KvEvent::Stored(stored)]));
    };
    target.apply(&bench.blocks, KvNews::Complete);
    store(&[1], &[1, 2]);
    let reason = "its events do not show yet how many tokens a block has";
    let report = target.report();
    assert_eq!((report.state, report.reason.as_deref(), target.complete()), ("partial", Some(reason), false));
    store(&[2, 3], &[5, 6, 7, 8]);
    assert_eq!(
        (target.report().state, target.complete(), target.report().blocks),
        ("complete", true, [3, 0, 0])
    );
    assert!(bench.metrics().contains("kv_partials_total{worker=\"w\",rank=\"2\"} 0"), "{}", bench.metrics());
}

#[test]
fn media_are_called_exact_once_an_event_named_some_and_never_where_events_cannot() {
    let bench = Bench::new(ON, 16 << 20);
    let [target, other] = &bench.targets[..] else { panic!("two ranks") };
    let seen = |target: &Target| (target.report().media, target.media_exact(), target.media_inexact());
    bench.store(0, 10, 3);
    assert_eq!(seen(target), ("unproven", false, false), "text says nothing of media");
    let media = vec![tito_types::MediaInBlock { identifier: "x".into(), offset: 1 }];
    let pictured = || {
        KvNews::Events(vec![KvEvent::Stored(StoredBlocks {
            parent: None,
            hashes: vec![EngineHash(77)],
            tokens: vec![1, 2, 3, 4],
            block_tokens: 4,
            tier: Tier::Gpu,
            adapter: None,
            adapter_id: None,
            salt: None,
            extras: vec![tito_types::BlockExtras { media: media.clone(), opaque: Vec::new() }],
        })])
    };
    target.apply(&bench.blocks, pictured());
    assert_eq!(seen(target), ("exact", true, false));
    target.apply(&bench.blocks, KvNews::Partial("a gap".into()));
    assert_eq!(seen(target), ("exact", true, false), "what an engine can tell is not lost with its blocks");
    other.apply(&bench.blocks, KvNews::MediaInexact("no offsets".into()));
    other.apply(&bench.blocks, pictured());
    assert_eq!(seen(other), ("inexact", false, true));
    let off = Bench::new(KvSupport::Off("it publishes none".into()), 16 << 20);
    assert_eq!(seen(&off.targets[0]), ("off", false, false));
}

#[test]
fn a_rank_whose_events_are_no_measure_says_why_and_stays_complete() {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    target.apply(&bench.blocks, KvNews::Complete);
    assert_eq!((target.not_compared(), target.report().not_compared), (false, None));
    target.apply(&bench.blocks, KvNews::NotCompared("a window".into()));
    assert_eq!((target.not_compared(), target.report().not_compared.as_deref()), (true, Some("a window")));
    assert!(target.complete());
}

#[test]
fn each_counter_of_a_feed_has_a_series_of_its_own_that_only_grows() {
    let bench = Bench::new(ON, 16 << 20);
    let counters = |times: u64| KvCounters {
        batches: times,
        gaps: 2 * times,
        replays: 3 * times,
        duplicates: 4 * times,
        unreadable: 5 * times,
        skipped: 6 * times,
        restarts: 7 * times,
    };
    // The last connection's end is the next one's beginning.
    for (target, times) in [(&bench.targets[0], 1), (&bench.targets[0], 3), (&bench.again()[0], 2)] {
        target.apply(&bench.blocks, KvNews::Counters(counters(times)));
    }
    let metrics = bench.metrics();
    let names = ["batches", "gaps", "replays", "duplicates", "unreadable", "skipped", "restarts"];
    for (name, total) in names.iter().zip((1..).map(|each| 5 * each)) {
        let line = format!("kv_{name}_total{{worker=\"w\",rank=\"2\"}} {total}\n");
        assert!(metrics.contains(&line), "no {line}{metrics}");
    }
}

#[test]
fn a_closed_target_leaves_no_blocks_and_its_lanes_serve_others() {
    let bench = Bench::new(ON, 16 << 20);
    bench.store(0, 10, 3);
    bench.targets[0].close(&bench.blocks);
    assert_eq!((bench.found(10, 3), bench.blocks.stats().memberships), (Vec::new(), 0));
    bench.store(1, 10, 2);
    assert_eq!(bench.found(10, 3), [(bench.targets[1].id, 2)]);
}

#[test]
fn an_index_at_its_bound_gives_up_blocks_and_says_whose() {
    let bench = Bench::new(ON, tito_kv_index::BYTES_MIN);
    bench.targets[0].apply(&bench.blocks, KvNews::Complete);
    for sequence in 0..4000 {
        bench.store(0, sequence * 100, 20);
        bench.blocks.tell_evicted();
    }
    let stats = bench.blocks.stats();
    assert!(stats.evicted > 0 && stats.bytes <= tito_kv_index::BYTES_MIN, "{stats:?}");
    let report = bench.targets[0].report();
    assert_eq!((report.state, bench.targets[0].complete()), ("partial", false), "{report:?}");
    let clear = || KvNews::Events(vec![KvEvent::Cleared]);
    bench.targets[0].apply(&bench.blocks, clear());
    assert_eq!(bench.targets[0].report().state, "complete", "an empty table is known whole again");
    bench.targets[0].apply(&bench.blocks, KvNews::Partial("a gap".into()));
    bench.targets[0].apply(&bench.blocks, clear());
    assert_eq!(
        bench.targets[0].report().state,
        "partial",
        "the feed did not say that it missed nothing after that"
    );
}

#[test]
fn a_block_after_one_that_is_not_known_shows_that_not_all_is_known() {
    let bench = Bench::new(ON, 16 << 20);
    let orphan = |tier| {
        KvNews::Events(vec![KvEvent::Stored(StoredBlocks {
            parent: Some(EngineHash(77)),
            hashes: vec![EngineHash(78)],
            tokens: vec![1, 2, 3, 4],
            block_tokens: 4,
            tier,
            adapter: None,
            adapter_id: None,
            salt: None,
            extras: Vec::new(),
        })])
    };
    bench.targets[0].apply(&bench.blocks, KvNews::Complete);
    bench.targets[0].apply(&bench.blocks, orphan(Tier::Cpu));
    assert!(bench.targets[0].complete(), "a lower tier may keep what device memory has dropped");
    let below = "it holds blocks outside device memory that are not known";
    assert_eq!(bench.targets[0].report().not_compared.as_deref(), Some(below));
    bench.targets[0].apply(&bench.blocks, KvNews::Events(vec![KvEvent::Cleared]));
    assert!(!bench.targets[0].not_compared(), "they are gone");
    let copied = KvEvent::Copied { hashes: vec![EngineHash(79)], tier: Tier::Storage };
    bench.targets[0].apply(&bench.blocks, KvNews::Events(vec![copied]));
    assert!(bench.targets[0].complete() && bench.targets[0].not_compared());
    bench.targets[0].apply(&bench.blocks, orphan(Tier::Gpu));
    let report = bench.targets[0].report();
    let reason = "blocks were stored after one that is not known";
    assert_eq!((report.state, report.reason.as_deref()), ("partial", Some(reason)));
}

#[test]
fn what_was_lost_before_the_history_was_proven_is_not_forgotten_by_the_proof() {
    let bench = Bench::new(ON, tito_kv_index::BYTES_MIN);
    for sequence in 0..4000 {
        bench.store(0, sequence * 100, 20);
        bench.blocks.tell_evicted();
    }
    let target = &bench.targets[0];
    target.apply(&bench.blocks, KvNews::Complete);
    assert_eq!((target.report().state, target.complete()), ("partial", false), "{:?}", target.report());
    target.apply(&bench.blocks, KvNews::Events(vec![KvEvent::Cleared]));
    assert_eq!(target.report().state, "complete", "an empty table is a whole one");
}

mod seen;
