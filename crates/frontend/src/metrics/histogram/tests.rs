use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;

#[test]
fn a_value_falls_into_the_first_bucket_that_holds_it() {
    let histogram = DurationHistogram::default();
    for micros in [0, 100, 101, 20_000_000_000] {
        histogram.observe(Duration::from_micros(micros));
    }
    histogram.observe(Duration::MAX);
    assert_eq!(histogram.count(), 5);
    let mut registry = Registry::default();
    registry.register("wait", "Waiting", histogram);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        "wait_count 5",
        "wait_bucket{le=\"0.0001\"} 2",
        "wait_bucket{le=\"0.00025\"} 3",
        "wait_bucket{le=\"10000.0\"} 3",
        "wait_bucket{le=\"+Inf\"} 5",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in {text}");
    }
}
