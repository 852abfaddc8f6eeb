use std::time::Duration;

use super::Arrivals;
use crate::config::ArrivalProcess;

fn due(process: ArrivalProcess, seed: u64, count: usize) -> Vec<Duration> {
    Arrivals::new(process, 1000.0, seed).take(count).collect()
}

#[test]
fn constant_arrivals_are_evenly_spaced_from_the_start() {
    let expected = [0, 1, 2, 3].map(Duration::from_millis);
    assert_eq!(due(ArrivalProcess::Constant, 1, 4), expected);
    let late = Arrivals::new(ArrivalProcess::Constant, 1000.0, 1).nth(3_600_000).unwrap();
    assert_eq!(late, Duration::from_hours(1), "gaps do not add up their rounding");
}

#[test]
fn poisson_arrivals_follow_from_the_seed() {
    assert_eq!(due(ArrivalProcess::Poisson, 1, 100), due(ArrivalProcess::Poisson, 1, 100));
    assert_ne!(due(ArrivalProcess::Poisson, 1, 100), due(ArrivalProcess::Poisson, 2, 100));
}

/// The gaps between many arrivals, in multiples of the mean that they should have, which they do.
fn gaps(process: ArrivalProcess, seed: u64) -> Vec<f64> {
    let due = due(process, seed, 100_000);
    assert!(due.is_sorted());
    let gaps: Vec<_> =
        due.windows(2).map(|pair| (pair[1].as_secs_f64() - pair[0].as_secs_f64()) * 1e3).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!((0.98..1.02).contains(&mean), "{process:?}, seed {seed}: mean gap {mean} ms");
    gaps
}

#[test]
fn poisson_arrivals_and_a_burstiness_of_one_have_the_rate_and_the_spread_of_their_kind() {
    for process in [ArrivalProcess::Poisson, ArrivalProcess::Gamma { burstiness: 1.0 }] {
        for seed in 0..5 {
            let gaps = gaps(process, seed);
            // Of independent arrivals, the share of gaps longer than the mean is 1/e.
            let share = gaps.iter().filter(|gap| **gap > 1.0).count() as f64 / gaps.len() as f64;
            assert!((0.36..0.376).contains(&share), "{process:?}, seed {seed}: {share} of the gaps are long");
        }
    }
}

#[test]
fn gamma_arrivals_have_the_rate_and_the_spread_that_burstiness_says() {
    for burstiness in [0.25, 1.0, 4.0, 25.0] {
        let gaps = gaps(ArrivalProcess::Gamma { burstiness }, 1);
        // The squared coefficient of variation of gamma gaps is one over the shape; their mean is 1.
        let variance = gaps.iter().map(|gap| (gap - 1.0).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((1.0 / variance / burstiness - 1.0).abs() < 0.06, "burstiness {burstiness}: {variance}");
    }
}
