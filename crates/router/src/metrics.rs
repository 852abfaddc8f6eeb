use std::sync::Weak;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder,
};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use tito_policy::{BoardStats, Rule};
use tito_types::WorkerId;

use crate::route::Shared;

/// What the router counts. Workers are configured by name, so the label is bounded by the configuration.
#[derive(Debug, Clone)]
pub struct RouteMetrics {
    dispatches: Family<DispatchLabels, Counter>,
    no_worker: Counter,
    choices: Family<RuleLabels, Counter>,
    waiting: Gauge,
    prompt_tokens: Counter,
    overlap_tokens: Counter,
    predicted_cached: Family<WorkerLabels, Counter>,
    reported_cached: Family<WorkerLabels, Counter>,
    cache_reports: Family<AgreementLabels, Counter>,
    token_only: Counter,
}

/// Which contact this was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Contact {
    First,
    Second,
}

impl EncodeLabelValue for Contact {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        let word = match self {
            Self::First => "first",
            Self::Second => "second",
        };
        word.encode(encoder)
    }
}

/// What an engine found in its cache, against what its events had told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Agreement {
    Equal,
    /// More than was known: something in flight put it there in between.
    MoreCached,
    /// Less than was known: it was evicted in between, or the identity is wrong.
    LessCached,
}

impl EncodeLabelValue for Agreement {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        let word = match self {
            Self::Equal => "equal",
            Self::MoreCached => "more_cached",
            Self::LessCached => "less_cached",
        };
        word.encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DispatchLabels {
    worker: String,
    rank: u32,
    contact: Contact,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerLabels {
    worker: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgreementLabels {
    result: Agreement,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabels {
    rule: &'static str,
}

impl RouteMetrics {
    /// The caller passes the registry for `router_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            dispatches: Family::default(),
            no_worker: Counter::default(),
            choices: Family::default(),
            waiting: Gauge::default(),
            prompt_tokens: Counter::default(),
            overlap_tokens: Counter::default(),
            predicted_cached: Family::default(),
            reported_cached: Family::default(),
            cache_reports: Family::default(),
            token_only: Counter::default(),
        };
        let text = "Requests sent to a target; the second contact follows a first that was not reached";
        registry.register("dispatches", text, metrics.dispatches.clone());
        registry.register("no_worker", "Requests for which no worker was left", metrics.no_worker.clone());
        let text = "Targets chosen, by what decided: policy, session, siblings or pin";
        registry.register("choices", text, metrics.choices.clone());
        let text = "Requests waiting because every target is at its limit";
        registry.register("waiting_requests", text, metrics.waiting.clone());
        registry.register("prompt_tokens", "Token ids of routed prompts", metrics.prompt_tokens.clone());
        let text = "Leading prompt tokens that the chosen targets held, by their events";
        registry.register("overlap_tokens", text, metrics.overlap_tokens.clone());
        let text = "Cached prompt tokens expected of engines whose whole block table is known";
        registry.register("predicted_cached_tokens", text, metrics.predicted_cached.clone());
        let text = "Cached prompt tokens that the same engines then reported";
        registry.register("reported_cached_tokens", text, metrics.reported_cached.clone());
        let text =
            "Requests by what the engine found in its cache: equal to what was expected, more, or less";
        registry.register("cache_reports", text, metrics.cache_reports.clone());
        let text = "Requests whose media some target could not match, or that the engine expands: matched on text only";
        registry.register("token_only_requests", text, metrics.token_only.clone());
        metrics
    }

    pub(crate) fn dispatched(&self, worker: &WorkerId, rank: u32, contact: Contact) {
        let labels = DispatchLabels { worker: worker.as_str().to_owned(), rank, contact };
        self.dispatches.get_or_create(&labels).inc();
    }

    pub(crate) fn no_worker(&self) {
        self.no_worker.inc();
    }

    pub(crate) fn chosen(&self, rule: Rule, prompt_tokens: usize, overlap_tokens: u32) {
        self.choices.get_or_create(&RuleLabels { rule: rule.word() }).inc();
        self.prompt_tokens.inc_by(prompt_tokens as u64);
        self.overlap_tokens.inc_by(u64::from(overlap_tokens));
    }

    /// Set by whoever keeps the lines.
    pub(crate) fn waiting(&self) -> Gauge {
        self.waiting.clone()
    }

    pub(crate) fn token_only(&self) {
        self.token_only.inc();
    }

    /// What an engine reported beside what was expected of it.
    pub(crate) fn compared(&self, worker: &WorkerId, expected: u32, reported: u32) {
        let labels = WorkerLabels { worker: worker.as_str().to_owned() };
        self.predicted_cached.get_or_create(&labels).inc_by(u64::from(expected));
        self.reported_cached.get_or_create(&labels).inc_by(u64::from(reported));
        let result = match expected.cmp(&reported) {
            std::cmp::Ordering::Equal => Agreement::Equal,
            std::cmp::Ordering::Less => Agreement::MoreCached,
            std::cmp::Ordering::Greater => Agreement::LessCached,
        };
        self.cache_reports.get_or_create(&AgreementLabels { result }).inc();
    }
}

/// Sizes of what the board keeps, read when metrics are.
#[derive(Debug)]
pub(crate) struct BoardCollector(pub(crate) Weak<Shared>);

impl Collector for BoardCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        let BoardStats { tickets, sessions, predicted, predicted_refused } = shared.desk().board.stats();
        for (name, help, value) in [
            ("tickets", "Requests charged to a target and not ended", tickets),
            ("sessions", "Sessions remembered", sessions),
            ("predicted_prompts", "Prompts expected on a target before its events tell", predicted),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let refused = ConstCounter::new(predicted_refused);
        let help = "Prompts not expected because there were as many as may be";
        refused.encode(encoder.encode_descriptor("predicted_refused", help, None, refused.metric_type())?)
    }
}
