//! Durations of many requests in memory of fixed size, those that a failure cut short as lower bounds.
//!
//! A request that failed after t seconds took at least t. Its time is *censored*: left out, it would make a server that
//! times out look fast, so it is counted at t, and what depends on its unknown rest is marked.

use std::time::Duration;

use hdrhistogram::{Counter, Histogram};

use crate::config::TIME_MAX;

/// Significant decimal digits a histogram keeps: a reported value is within 0.1 % of the measured one.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Two values that differ by less than this share of the smaller one cannot be told apart, as each is within 0.1 %.
const RESOLUTION: f64 = 0.002;

/// One duration, as far as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    /// It took this long.
    Known(Duration),
    /// It took at least this long; a failure hid its end.
    AtLeast(Duration),
}

/// A value that is exact, or that the true one is not below.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounded {
    pub(crate) nanoseconds: f64,
    pub(crate) lower_bound: bool,
}

/// Histograms of samples, kept in nanoseconds.
#[derive(Debug)]
pub(crate) struct Times {
    known: Histogram<u64>,
    /// Made with the first censored sample: most runs have none.
    censored: Option<Histogram<u64>>,
}

impl Times {
    pub(crate) fn new() -> Self {
        Self { known: empty(), censored: None }
    }

    pub(crate) fn record(&mut self, sample: Sample) {
        self.record_times(sample, 1);
    }

    /// Records the same sample `times` times.
    pub(crate) fn record_times(&mut self, sample: Sample, times: u64) {
        let (histogram, time) = match sample {
            Sample::Known(time) => (&mut self.known, time),
            Sample::AtLeast(time) => (self.censored.get_or_insert_with(empty), time),
        };
        histogram.saturating_record_n(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), times);
    }

    /// Samples recorded, censored ones included.
    pub(crate) fn count(&self) -> u64 {
        self.known.len() + self.censored()
    }

    /// Samples that are lower bounds.
    pub(crate) fn censored(&self) -> u64 {
        self.censored.as_ref().map_or(0, Histogram::len)
    }

    /// The samples in order, ready for questions.
    pub(crate) fn ordered(&self) -> Ordered<'_> {
        let all = self.censored.as_ref().map(|censored| {
            let mut all = self.known.clone();
            all.add(censored).expect("both have the same bounds");
            all
        });
        Ordered { known: &self.known, all }
    }
}

/// Samples in order of their durations.
pub(crate) struct Ordered<'a> {
    known: &'a Histogram<u64>,
    /// Known and censored samples together; absent when none is censored.
    all: Option<Histogram<u64>>,
}

impl Ordered<'_> {
    /// The sample that `per_mille` thousandths of all are not above, by nearest rank. It is a lower bound when the answer
    /// would be another if each censored sample had never ended.
    pub(crate) fn quantile(&self, per_mille: u64) -> Bounded {
        let (nanoseconds, lower_bound) = quantile(self.known, self.all(), per_mille, RESOLUTION);
        Bounded { nanoseconds, lower_bound }
    }

    pub(crate) fn mean(&self) -> Bounded {
        Bounded { nanoseconds: self.all().mean(), lower_bound: self.all.is_some() }
    }

    pub(crate) fn max(&self) -> Bounded {
        Bounded { nanoseconds: self.all().max() as f64, lower_bound: self.all.is_some() }
    }

    fn all(&self) -> &Histogram<u64> {
        self.all.as_ref().unwrap_or(self.known)
    }
}

/// The value that `per_mille` thousandths of `all` are not above, by nearest rank; and whether it is a lower bound: whether it
/// would be another, by more than the share `resolution`, if each sample that is not in `known` had never ended.
pub(crate) fn quantile<C: Counter>(
    known: &Histogram<C>,
    all: &Histogram<C>,
    per_mille: u64,
    resolution: f64,
) -> (f64, bool) {
    let rank = (all.len() * per_mille).div_ceil(1000).max(1);
    let least = value_at(all, rank).unwrap_or(0) as f64;
    let most = value_at(known, rank).map(|most| most as f64);
    let exact = most.is_some_and(|most| most - least <= least * resolution);
    (least, !exact)
}

/// The value with the given rank, counted from 1; none beyond the last.
fn value_at<C: Counter>(histogram: &Histogram<C>, rank: u64) -> Option<u64> {
    let mut seen = 0;
    let step = histogram.iter_recorded().find(|step| {
        seen += step.count_at_value().as_u64();
        seen >= rank
    });
    step.map(|step| step.value_iterated_to())
}

fn empty() -> Histogram<u64> {
    let max = TIME_MAX.as_nanos() as u64;
    let histogram = Histogram::new_with_bounds(1, max, SIGNIFICANT_DIGITS);
    histogram.expect("the bounds and digits are constants that fit")
}

#[cfg(test)]
mod tests;
