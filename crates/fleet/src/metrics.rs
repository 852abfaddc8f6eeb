use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use tito_kv_index::Applied;
use tito_types::{KvCounters, Tier, WorkerId};

use crate::Blocks;
use crate::target::tier_word;

/// What the fleet counts. Workers are configured by name, so the labels are bounded by the configuration.
#[derive(Debug, Clone)]
pub struct FleetMetrics {
    ready: Family<WorkerLabels, Gauge>,
    connections: Family<WorkerLabels, Counter>,
    losses: Family<WorkerLabels, Counter>,
    paused: Family<WorkerLabels, Gauge>,
    load_unknown: Family<WorkerLabels, Counter>,
    kv: KvFamilies,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerLabels {
    worker: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabels {
    worker: String,
    rank: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TierLabels {
    worker: String,
    rank: u32,
    tier: &'static str,
}

/// Series about block tables, before a target picks its own.
#[derive(Debug, Clone, Default)]
struct KvFamilies {
    complete: Family<TargetLabels, Gauge>,
    blocks: Family<TierLabels, Gauge>,
    partials: Family<TargetLabels, Counter>,
    batches: Family<TargetLabels, Counter>,
    gaps: Family<TargetLabels, Counter>,
    replays: Family<TargetLabels, Counter>,
    duplicates: Family<TargetLabels, Counter>,
    unreadable: Family<TargetLabels, Counter>,
    skipped: Family<TargetLabels, Counter>,
    restarts: Family<TargetLabels, Counter>,
    orphans: Family<TargetLabels, Counter>,
}

impl KvFamilies {
    fn register(registry: &mut Registry) -> Self {
        let kv = Self::default();
        registry.register(
            "kv_complete",
            "1 while all of the target's block table is known",
            kv.complete.clone(),
        );
        registry.register("kv_blocks", "Blocks the index knows on the target, by tier", kv.blocks.clone());
        for (name, help, family) in [
            (
                "kv_partials",
                "Times blocks of a complete block table were lost; a gap that a replay fills is none",
                &kv.partials,
            ),
            ("kv_batches", "Batches of KV events applied", &kv.batches),
            ("kv_gaps", "Gaps seen in the sequence of KV events", &kv.gaps),
            ("kv_replays", "Replays of KV events asked for", &kv.replays),
            ("kv_duplicates", "Batches of KV events seen again and dropped", &kv.duplicates),
            ("kv_unreadable", "KV events or batches that could not be read", &kv.unreadable),
            (
                "kv_skipped",
                "Blocks and KV events left out on purpose: groups without a whole prefix, partial or remote blocks, what was told before a reset",
                &kv.skipped,
            ),
            ("kv_restarts", "Publisher restarts seen", &kv.restarts),
            ("kv_orphans", "Stored blocks whose parent, and copies whose name, is not known", &kv.orphans),
        ] {
            registry.register(name, help, family.clone());
        }
        kv
    }
}

/// The series of one target.
#[derive(Debug, Clone)]
pub(crate) struct TargetMetrics {
    complete: Gauge,
    blocks: [Gauge; 3],
    partials: Counter,
    batches: Counter,
    gaps: Counter,
    replays: Counter,
    duplicates: Counter,
    unreadable: Counter,
    skipped: Counter,
    restarts: Counter,
    orphans: Counter,
}

impl TargetMetrics {
    pub(crate) fn complete(&self, complete: bool) {
        self.complete.set(i64::from(complete));
    }

    /// In device memory, host memory and storage.
    pub(crate) fn blocks(&self, blocks: [u64; 3]) {
        for (gauge, count) in self.blocks.iter().zip(blocks) {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn became_partial(&self) {
        self.partials.inc();
    }

    pub(crate) fn applied(&self, applied: &Applied) {
        self.orphans.inc_by(applied.orphaned);
        self.skipped.inc_by(applied.skipped);
    }

    /// Totals that grew from `was` to `is` on one connection.
    pub(crate) fn counters(&self, was: KvCounters, is: KvCounters) {
        let KvCounters { batches, gaps, replays, duplicates, unreadable, skipped, restarts } = is;
        self.batches.inc_by(batches.saturating_sub(was.batches));
        self.gaps.inc_by(gaps.saturating_sub(was.gaps));
        self.replays.inc_by(replays.saturating_sub(was.replays));
        self.duplicates.inc_by(duplicates.saturating_sub(was.duplicates));
        self.unreadable.inc_by(unreadable.saturating_sub(was.unreadable));
        self.skipped.inc_by(skipped.saturating_sub(was.skipped));
        self.restarts.inc_by(restarts.saturating_sub(was.restarts));
    }
}

impl FleetMetrics {
    /// The caller passes the registry for `fleet_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            ready: Family::default(),
            connections: Family::default(),
            losses: Family::default(),
            paused: Family::default(),
            load_unknown: Family::default(),
            kv: KvFamilies::register(registry),
        };
        registry.register(
            "worker_ready",
            "1 while requests may be sent to the worker",
            metrics.ready.clone(),
        );
        registry.register(
            "worker_connections",
            "Times the worker was reached and accepted",
            metrics.connections.clone(),
        );
        registry.register(
            "worker_losses",
            "Times a ready worker stopped being healthy",
            metrics.losses.clone(),
        );
        registry.register(
            "worker_paused",
            "1 while the worker's engine is paused by an order",
            metrics.paused.clone(),
        );
        registry.register(
            "load_unknown",
            "Times the metrics of the worker's engine did not tell the load of every rank",
            metrics.load_unknown.clone(),
        );
        metrics
    }

    pub(crate) fn unreached(&self, worker: &WorkerId) {
        self.ready.get_or_create(&labels(worker)).set(0);
    }

    pub(crate) fn accepted(&self, worker: &WorkerId) {
        self.ready.get_or_create(&labels(worker)).set(1);
        self.connections.get_or_create(&labels(worker)).inc();
    }

    pub(crate) fn lost(&self, worker: &WorkerId) {
        self.ready.get_or_create(&labels(worker)).set(0);
        self.losses.get_or_create(&labels(worker)).inc();
    }

    /// To be told whether the worker is paused.
    pub(crate) fn paused(&self, worker: &WorkerId) -> Gauge {
        self.paused.get_or_create(&labels(worker)).clone()
    }

    pub(crate) fn load_unknown(&self, worker: &WorkerId) {
        self.load_unknown.get_or_create(&labels(worker)).inc();
    }

    pub(crate) fn target(&self, worker: &WorkerId, rank: u32) -> TargetMetrics {
        let labels = TargetLabels { worker: worker.as_str().to_owned(), rank };
        let tier = |tier| {
            let labels = TierLabels { worker: labels.worker.clone(), rank, tier: tier_word(tier) };
            self.kv.blocks.get_or_create(&labels).clone()
        };
        let counter = |family: &Family<TargetLabels, Counter>| family.get_or_create(&labels).clone();
        TargetMetrics {
            complete: self.kv.complete.get_or_create(&labels).clone(),
            blocks: [tier(Tier::Gpu), tier(Tier::Cpu), tier(Tier::Storage)],
            partials: counter(&self.kv.partials),
            batches: counter(&self.kv.batches),
            gaps: counter(&self.kv.gaps),
            replays: counter(&self.kv.replays),
            duplicates: counter(&self.kv.duplicates),
            unreadable: counter(&self.kv.unreadable),
            skipped: counter(&self.kv.skipped),
            restarts: counter(&self.kv.restarts),
            orphans: counter(&self.kv.orphans),
        }
    }
}

fn labels(worker: &WorkerId) -> WorkerLabels {
    WorkerLabels { worker: worker.as_str().to_owned() }
}

/// Sizes of the index, read when metrics are.
#[derive(Debug)]
pub(crate) struct IndexCollector(pub(crate) Arc<Blocks>);

impl Collector for IndexCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stats = self.0.stats();
        let gauges = [
            ("index_bytes", "Memory of the prefix index, in bytes", stats.bytes as u64),
            ("index_bytes_max", "Bound of the prefix index, in bytes", self.0.bytes_max() as u64),
            ("index_blocks", "Distinct blocks in the prefix index", stats.blocks),
            (
                "index_memberships",
                "Blocks in the prefix index, counted once per target and tier",
                stats.memberships,
            ),
            (
                "index_private_lanes",
                "Lanes (one per target and tier) of engines that name blocks otherwise than the others",
                stats.private_holders as u64,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value as i64);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let evicted = ConstCounter::new(stats.evicted);
        let help = "Blocks given up for want of room";
        let metric = encoder.encode_descriptor("index_evicted_blocks", help, None, evicted.metric_type())?;
        evicted.encode(metric)
    }
}
