use std::time::Duration;

use proptest::prelude::*;

use super::{Sample, Times};

const PER_MILLE: [u64; 5] = [500, 900, 950, 990, 999];

/// Samples in nanoseconds, true for a censored one.
fn times(samples: &[(u64, bool)]) -> Times {
    let mut times = Times::new();
    for &(nanoseconds, censored) in samples {
        let time = Duration::from_nanos(nanoseconds);
        times.record(if censored { Sample::AtLeast(time) } else { Sample::Known(time) });
    }
    times
}

/// The element of a sorted list that the percentile names, by nearest rank.
fn at(sorted: &[u64], count: usize, per_mille: u64) -> Option<f64> {
    let rank = (count * per_mille as usize).div_ceil(1000).max(1);
    sorted.get(rank - 1).map(|value| *value as f64)
}

fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values
}

#[test]
fn a_time_out_in_a_hundred_marks_the_last_percentile_and_not_the_median() {
    let mut samples: Vec<_> = (1..=980).map(|ms| (ms * 1_000_000, false)).collect();
    samples.extend([(2_000_000_000, true); 20]);
    let times = times(&samples);
    let ordered = times.ordered();
    let found = PER_MILLE.map(|per_mille| ordered.quantile(per_mille).lower_bound);
    assert_eq!(found, [false, false, false, true, true]);
    assert!(ordered.mean().lower_bound && ordered.max().lower_bound);
    assert_eq!((times.count(), times.censored()), (1000, 20));
}

#[test]
fn a_failure_at_once_counts_as_a_request_that_might_have_taken_forever() {
    let mut samples: Vec<_> = (1..=100).map(|ms| (ms * 1_000_000, false)).collect();
    samples.extend([(1, true); 100]);
    let times = times(&samples);
    // Half of all requests never ended as far as anybody knows: the median lies between nothing and the slowest.
    assert!(times.ordered().quantile(500).lower_bound);
}

#[test]
fn samples_counted_many_times_weigh_as_many() {
    let mut times = Times::new();
    times.record_times(Sample::Known(Duration::from_millis(1)), 999);
    times.record(Sample::Known(Duration::from_millis(9)));
    assert!((times.ordered().quantile(999).nanoseconds - 1e6).abs() < 1e3);
    assert!((times.ordered().max().nanoseconds - 9e6).abs() < 9e3);
    assert!((times.ordered().mean().nanoseconds - 1.008e6).abs() < 1e3);
}

fn samples() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let value = prop_oneof![1..1_000_u64, 1..100_000_000_u64, 1..10_000_000_000_u64];
    prop::collection::vec((value, prop::bool::weighted(0.1)), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_percentile_is_that_of_the_sorted_list(samples in samples(), per_mille in 1..=1000_u64) {
        let all = sorted(samples.iter().map(|(value, _)| *value));
        let known = sorted(samples.iter().filter(|(_, censored)| !censored).map(|(value, _)| *value));
        let found = times(&samples).ordered().quantile(per_mille);
        let least = at(&all, all.len(), per_mille).unwrap();
        prop_assert!((found.nanoseconds - least).abs() <= 0.001 * least, "{found:?} for {least}");
        match at(&known, all.len(), per_mille) {
            Some(most) if most <= least => prop_assert!(!found.lower_bound),
            Some(most) if most < 1.01 * least => (),
            Some(_) | None => prop_assert!(found.lower_bound),
        }
    }

    #[test]
    fn the_truth_is_not_below_a_percentile_and_is_an_unmarked_one(
        samples in samples(),
        rest in prop::collection::vec(prop_oneof![Just(0_u64), 1..10_000_000_000_u64], 300),
    ) {
        let rest = samples.iter().zip(rest).map(|((value, censored), rest)| value + u64::from(*censored) * rest);
        let truth = sorted(rest);
        let times = times(&samples);
        let ordered = times.ordered();
        for per_mille in PER_MILLE {
            let found = ordered.quantile(per_mille);
            let truth = at(&truth, truth.len(), per_mille).unwrap();
            prop_assert!(found.nanoseconds <= 1.001 * truth, "{found:?} for {truth}");
            prop_assert!(found.lower_bound || truth <= 1.004 * found.nanoseconds, "{found:?} for {truth}");
        }
    }
}
