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
    pub(super) const ALL: [Self; 11] = [
        Self::Licences,
        Self::Advisories,
        Self::Fuzz,
        Self::TestRelease,
        Self::Drift,
        Self::ConformanceLight,
        Self::ConformanceDense,
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
            Self::Fuzz => 20,
            Self::TestRelease => 22,
            Self::Drift => 15,
            Self::ConformanceDense => 10,
            Self::ConformanceLight | Self::Clients | Self::Ratios => 8,
            Self::KvIndexBench => 9,
            Self::Mutants => 17,
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
            Self::Clients => "clients",
            Self::Ratios => "ratios",
            Self::KvIndexBench => "kv-index-bench",
            Self::Mutants => "mutants",
        }
    }
}
