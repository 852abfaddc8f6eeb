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

#[test]
fn poisson_arrivals_have_the_rate_and_the_spread_of_their_kind() {
    let count = 100_000;
    for seed in 0..5 {
        let due = due(ArrivalProcess::Poisson, seed, count);
        assert!(due.is_sorted());
        let mean_ms = due[count - 1].as_secs_f64() * 1e3 / count as f64;
        assert!((0.98..1.02).contains(&mean_ms), "seed {seed}: mean gap {mean_ms} ms");
        // Of independent arrivals, the share of gaps longer than the mean is 1/e.
        let long = due
            .windows(2)
            .filter(|pair| pair[1].checked_sub(pair[0]).unwrap() > Duration::from_millis(1))
            .count();
        let share = long as f64 / count as f64;
        assert!((0.36..0.376).contains(&share), "seed {seed}: {share} of the gaps are long");
    }
}

#[test]
fn gamma_arrivals_have_the_rate_and_the_spread_that_burstiness_says() {
    let count = 100_000;
    for burstiness in [0.25, 1.0, 4.0, 25.0] {
        let due = due(ArrivalProcess::Gamma { burstiness }, 1, count);
        assert!(due.is_sorted());
        let seconds: Vec<_> = due.iter().map(Duration::as_secs_f64).collect();
        let gaps: Vec<_> = seconds.windows(2).map(|pair| (pair[1] - pair[0]) * 1e3).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((0.98..1.02).contains(&mean), "burstiness {burstiness}: mean gap {mean} ms");
        // The squared coefficient of variation of gamma gaps is one over the shape.
        let found = mean * mean / variance;
        assert!((found / burstiness - 1.0).abs() < 0.05, "burstiness {burstiness}: {found}");
    }
}

#[test]
fn a_burstiness_of_one_is_poisson() {
    // Of independent arrivals, the share of gaps longer than the mean is 1/e.
    let due = due(ArrivalProcess::Gamma { burstiness: 1.0 }, 3, 100_000);
    let seconds: Vec<_> = due.iter().map(Duration::as_secs_f64).collect();
    let long = seconds.windows(2).filter(|pair| pair[1] - pair[0] > 1e-3).count();
    let share = long as f64 / due.len() as f64;
    assert!((0.36..0.376).contains(&share), "{share}");
}
