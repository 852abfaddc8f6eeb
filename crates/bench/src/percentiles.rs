//! A distribution of times as reports give it.

use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};

use crate::latency::LatencyTimes;
use crate::times::{Bounded, Times};

/// A distribution of times in milliseconds, each value within 0.1 %.
///
/// A request that failed counts with the time after which it failed. A statistic that its unknown rest could raise is a
/// lower bound, and listed as one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "each field is the statistic it is named after")]
pub struct Percentiles {
    /// Number of values, those of failed requests included.
    pub count: u64,
    /// Values that are lower bounds, because their request failed.
    pub censored: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    /// The 99.9th.
    pub p99_9: f64,
    pub max: f64,
    /// Names of the statistics that are lower bounds.
    pub lower_bounds: LowerBounds,
}

/// The statistics in the order of [`Percentiles::values`].
const STATISTICS: [&str; 7] = ["mean", "p50", "p90", "p95", "p99", "p99_9", "max"];

/// Which statistics of a distribution are lower bounds. Serializes to the list of their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LowerBounds([bool; STATISTICS.len()]);

impl Percentiles {
    /// None when nothing was recorded.
    pub(crate) fn of(times: &Times) -> Option<Self> {
        if times.count() == 0 {
            return None;
        }
        let ordered = times.ordered();
        let [p50, p90, p95, p99, p99_9] = [500, 900, 950, 990, 999].map(|rank| ordered.quantile(rank));
        let all = [ordered.mean(), p50, p90, p95, p99, p99_9, ordered.max()];
        let [mean, p50, p90, p95, p99, p99_9, max] = all.map(|Bounded { nanoseconds, .. }| nanoseconds / 1e6);
        let lower_bounds = LowerBounds(all.map(|bounded| bounded.lower_bound));
        let (count, censored) = (times.count(), times.censored());
        Some(Self { count, censored, mean, p50, p90, p95, p99, p99_9, max, lower_bounds })
    }

    /// Each statistic: its name, its value in milliseconds, and whether that is a lower bound.
    pub fn values(&self) -> [(&'static str, f64, bool); STATISTICS.len()] {
        let Self { count: _, censored: _, mean, p50, p90, p95, p99, p99_9, max, lower_bounds } = *self;
        let values = [mean, p50, p90, p95, p99, p99_9, max];
        std::array::from_fn(|place| (STATISTICS[place], values[place], lower_bounds.0[place]))
    }

    /// The statistic of that name in milliseconds; none when it is a lower bound.
    pub(crate) fn exact(&self, statistic: &str) -> Option<f64> {
        let mut values = self.values().into_iter();
        values.find_map(|(name, value, lower_bound)| (name == statistic && !lower_bound).then_some(value))
    }
}

/// Distributions percent by percent from 0 to 100, milliseconds. Each ends where failed requests hide the rest; it is empty
/// when nothing was recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Curves {
    pub(crate) ttft: Vec<f64>,
    pub(crate) itl: Vec<f64>,
    pub(crate) e2e: Vec<f64>,
}

impl Curves {
    pub(crate) fn of(times: &LatencyTimes) -> Self {
        Self { ttft: curve(&times.ttft), itl: curve(&times.itl), e2e: curve(&times.e2e) }
    }
}

fn curve(times: &Times) -> Vec<f64> {
    if times.count() == 0 {
        return Vec::new();
    }
    let ordered = times.ordered();
    let values = (0..=100).map(|percent| ordered.quantile(10 * percent));
    values.take_while(|value| !value.lower_bound).map(|value| value.nanoseconds / 1e6).collect()
}

impl LowerBounds {
    #[cfg(test)]
    pub(crate) fn of(names: &[&str]) -> Self {
        Self(STATISTICS.map(|statistic| names.contains(&statistic)))
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        !self.0.contains(&true)
    }
}

impl Serialize for LowerBounds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = serializer.serialize_seq(None)?;
        for (name, lower_bound) in STATISTICS.iter().zip(self.0) {
            if lower_bound {
                names.serialize_element(name)?;
            }
        }
        names.end()
    }
}

#[cfg(test)]
mod tests;
