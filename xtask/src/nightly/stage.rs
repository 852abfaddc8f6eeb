//! The stages of a night and the time each may take.

use std::time::Duration;

use crate::stages;

/// One stage, in the order they run: what needs the least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Stage {
    /// Licences, sources and duplicates of dependencies, against `deny.toml`.
    Licences,
    /// Known vulnerabilities of dependencies, against the RustSec database.
    Advisories,
    /// Each fuzz target for a minute from the committed corpus.
    Fuzz,
    /// Every test, optimised.
    TestRelease,
    /// Ten minutes of routing under eviction, every prediction checked.
    Drift,
    /// The contract suite on the real `vllm-rs` over a scripted engine.
    ConformanceLight,
    /// The contract suite on real vLLM.
    ConformanceDense,
    /// Scheduling and KV events on real vLLM with few blocks.
    ConformanceDenseTight,
    /// The same under the priority policy.
    ConformanceDensePriority,
    /// Third-party clients against `tito serve` over real vLLM.
    Clients,
    /// Costs beside a reference in the same process, against the stored ratios.
    Ratios,
    /// The comparison with other routers' indexes compiles.
    KvIndexBench,
    /// A sample of the mutants in lines that changed.
    Mutants,
}

impl Stage {
    pub(super) const ALL: [Self; 13] = [
        Self::Licences,
        Self::Advisories,
        Self::Fuzz,
        Self::TestRelease,
        Self::Drift,
        Self::ConformanceLight,
        Self::ConformanceDense,
        Self::ConformanceDenseTight,
        Self::ConformanceDensePriority,
        Self::Clients,
        Self::Ratios,
        Self::KvIndexBench,
        Self::Mutants,
    ];

    /// The stage is stopped and has failed after this. The budgets add up to two hours.
    pub(super) fn budget(self) -> Duration {
        Duration::from_mins(match self {
            Self::Licences => 1,
            Self::Advisories => 2,
            Self::Fuzz | Self::Mutants => 17,
            Self::TestRelease => 21,
            Self::Drift => 15,
            Self::ConformanceLight => 7,
            Self::ConformanceDenseTight | Self::ConformanceDensePriority => 4,
            Self::ConformanceDense | Self::Clients | Self::Ratios | Self::KvIndexBench => 8,
        })
    }
}

impl stages::Stage for Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Licences => "licences",
            Self::Advisories => "advisories",
            Self::Fuzz => "fuzz",
            Self::TestRelease => "test-release",
            Self::Drift => "drift",
            Self::ConformanceLight => "conformance-light",
            Self::ConformanceDense => "conformance-dense",
            Self::ConformanceDenseTight => "conformance-dense-tight",
            Self::ConformanceDensePriority => "conformance-dense-priority",
            Self::Clients => "clients",
            Self::Ratios => "ratios",
            Self::KvIndexBench => "kv-index-bench",
            Self::Mutants => "mutants",
        }
    }
}
