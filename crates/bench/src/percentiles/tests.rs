use std::time::Duration;

use super::Percentiles;
use crate::times::{Sample, Times};

#[test]
fn percentiles_are_within_a_thousandth_of_the_values_recorded() {
    let mut times = Times::new();
    for microseconds in 1..=100_000 {
        times.record(Sample::Known(Duration::from_micros(microseconds)));
    }
    let found = Percentiles::of(&times).unwrap();
    assert_eq!((found.count, found.censored), (100_000, 0));
    assert!(found.lower_bounds.is_empty());
    let expected = [50.0, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0];
    for ((name, measured, _), expected) in found.values().into_iter().zip(expected) {
        assert!((measured / expected - 1.0_f64).abs() < 0.001, "{name} is {measured} ms for {expected} ms");
    }
}

#[test]
fn no_values_are_no_percentiles_and_no_value_is_too_large() {
    let mut times = Times::new();
    assert_eq!(Percentiles::of(&times), None);
    times.record(Sample::Known(Duration::MAX));
    let day_ms = 86_400_000.0_f64;
    assert!((Percentiles::of(&times).unwrap().max / day_ms - 1.0).abs() < 0.001);
}

#[test]
fn statistics_that_a_failure_could_raise_are_named_and_not_compared() {
    let mut times = Times::new();
    (1..=98).for_each(|ms| times.record(Sample::Known(Duration::from_millis(ms))));
    times.record_times(Sample::AtLeast(Duration::from_millis(500)), 2);
    let found = Percentiles::of(&times).unwrap();
    assert_eq!((found.count, found.censored), (100, 2));
    assert_eq!(
        serde_json::to_value(found).unwrap()["lower_bounds"],
        serde_json::json!(["mean", "p99", "p99_9", "max"])
    );
    assert_eq!((found.exact("p95").map(f64::round), found.exact("p99")), (Some(95.0), None));
    assert!((found.p99 - 500.0).abs() < 1.0, "{found:?}");
}
