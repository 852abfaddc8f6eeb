use proptest::prelude::*;

use super::{MinMax, median};

#[test]
fn a_median_is_the_middle_whatever_the_order() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(&[]), None);
}

#[test]
fn a_spread_is_half_the_range_over_the_median() {
    let spread = MinMax::of(&[11.0, 9.0, 10.0]).unwrap();
    assert_eq!((spread.min, spread.max, spread.percent_of(10.0)), (9.0, 11.0, Some(10.0)));
    assert_eq!((MinMax::of(&[]), spread.percent_of(0.0)), (None, None));
}

proptest! {
    #[test]
    fn half_of_the_values_lie_on_each_side_of_the_median_and_all_within_the_spread(
        values in prop::collection::vec(-1e9..1e9_f64, 1..40),
    ) {
        let (middle, spread) = (median(&values).unwrap(), MinMax::of(&values).unwrap());
        let below = values.iter().filter(|value| **value < middle).count();
        let above = values.iter().filter(|value| **value > middle).count();
        prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
        prop_assert!(values.iter().all(|value| (spread.min..=spread.max).contains(value)));
        prop_assert!(values.contains(&spread.min) && values.contains(&spread.max));
    }
}
