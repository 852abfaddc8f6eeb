use proptest::prelude::*;

use super::Search;

/// The rates tried on a server that passes up to `knee`.
fn tried(start: f64, knee: f64, steps_max: usize) -> (Search, Vec<f64>) {
    let mut search = Search::new(start, 0.05);
    let mut rates = Vec::new();
    while let Some(rate) = search.next().filter(|_| rates.len() < steps_max) {
        search.tried(rate, rate <= knee);
        rates.push(rate);
    }
    (search, rates)
}

#[test]
fn a_sweep_doubles_until_a_rate_fails_and_then_halves_the_bracket() {
    assert_eq!(tried(1.0, 11.0, 7).1, [1.0, 2.0, 4.0, 8.0, 16.0, 12.0, 10.0]);
    assert_eq!(tried(64.0, 11.0, 6).1, [64.0, 32.0, 16.0, 8.0, 12.0, 10.0]);
}

#[test]
fn a_server_without_a_limit_is_tried_as_often_as_allowed() {
    assert_eq!(tried(1.0, f64::INFINITY, 4).1, [1.0, 2.0, 4.0, 8.0]);
}

proptest! {
    #[test]
    fn the_knee_lies_in_a_bracket_as_narrow_as_asked(start in 0.1..1000.0_f64, knee in 0.1..1000.0_f64) {
        let (search, rates) = tried(start, knee, 100);
        let (passed, failed) = (search.passed.unwrap(), search.failed.unwrap());
        prop_assert!(passed <= knee && knee < failed, "{search:?}");
        prop_assert!(failed <= 1.05 * passed, "{search:?}");
        // From one end of the range to the other by doubling, then by halves to a twentieth.
        prop_assert!(rates.len() <= 14 + 1 + 5, "{rates:?}");
    }
}
