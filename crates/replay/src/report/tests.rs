use super::*;

#[test]
fn percentiles_are_by_nearest_rank() {
    // 0 % is the least value; any other is the least one that so many of all do not exceed.
    for (count, expected) in [
        (1_u32, [1, 1, 1, 1, 1]),
        (2, [1, 1, 2, 2, 2]),
        (10, [1, 5, 9, 10, 10]),
        (11, [1, 6, 10, 11, 11]),
        (100, [1, 50, 90, 99, 100]),
        (200, [1, 100, 180, 198, 200]),
    ] {
        let mut values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
        let quantiles = quantiles(&mut values);
        let found = [0, 50, 90, 99, 100].map(|percent| quantiles[percent] as u32);
        assert_eq!(found, expected, "{count} values");
        let spread = Spread::of(&mut values).unwrap();
        let found = [spread.p50, spread.p90, spread.p99, spread.max].map(|value| value as u32);
        assert_eq!(found[..], expected[1..], "{count} values");
        assert!((spread.mean - f64::from(count + 1) / 2.0).abs() < 1e-9);
    }
}

#[test]
fn of_nothing_there_is_no_number() {
    assert_eq!(Spread::of(&mut []), None);
    assert_eq!(quantiles(&mut []), Vec::<f64>::new());
    let balance = Balance::of(vec![0, 0], &[0, 0]);
    assert_eq!((balance.prefill, balance.requests), (None, None));
}
