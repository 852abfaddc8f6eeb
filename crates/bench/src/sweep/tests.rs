//! Sweeps over servers of known capacity, on a paused clock.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::{RateVerdict, Sweep, SweepConfig, sweep_over};
use crate::config::{Api, ArrivalProcess, BenchConfig, Load, Stop};
use crate::pacer::Pacer;
use crate::run::{Error, run_over};
use crate::testing::{Answer, Memory, TWO_TOKENS, config, silent};

/// Begins at one request per second, with steps of half a minute.
fn open() -> BenchConfig {
    let mut config = config(Api::Generate, false);
    config.load = Load::Open {
        rate_per_s: 1.0,
        arrivals: ArrivalProcess::Poisson,
        duration: Duration::from_secs(30),
        in_flight_max: 4096,
    };
    config
}

const SWEEP: SweepConfig = SweepConfig { steps_max: 12, good_share_min: 0.99, precision: 0.1 };

/// A server that serves one request after another, each for this time.
fn one_at_a_time(service: Duration) -> Memory {
    let free = Mutex::new(Instant::now());
    Memory::new(1 << 16, move |_| {
        let mut free = free.lock().unwrap();
        *free = Instant::now().max(*free) + service;
        Answer { not_before: Some(*free), ..Answer::json(TWO_TOKENS) }
    })
}

async fn over(config: &BenchConfig, sweep: SweepConfig, server: impl Fn() -> Memory) -> Sweep {
    let run = async |config: BenchConfig| run_over(&config, server(), &Pacer::Runtime, &silent()).await;
    sweep_over(config, sweep, run).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_knee_of_a_server_without_limits_is_where_it_falls_behind() {
    // Ten per second; Poisson arrivals queue up before that, but the queue of a lower rate does not grow.
    let sweep = over(&open(), SWEEP, || one_at_a_time(Duration::from_millis(100))).await;
    let knee = sweep.knee_per_s.unwrap();
    assert!((8.0..=12.0).contains(&knee), "{sweep}");
    assert!(sweep.ok() && sweep.limit == Some(RateVerdict::FellBehind), "{sweep}");
    let rates: Vec<_> = sweep.steps.iter().map(|step| step.rate_per_s).take(5).collect();
    assert_eq!(rates, [1.0, 2.0, 4.0, 8.0, 16.0]);
    let seeds: Vec<_> = sweep.steps.iter().map(|step| step.report.workload.prompt_seed).collect();
    assert!(seeds.windows(2).all(|pair| pair[0] != pair[1]), "each step asks anew: {seeds:?}");
}

#[tokio::test(start_paused = true)]
async fn the_knee_with_limits_is_the_highest_rate_that_meets_them() {
    let mut config = open();
    config.report.slo = "e2e:300ms".parse().unwrap();
    let sweep = over(&config, SWEEP, || one_at_a_time(Duration::from_millis(100))).await;
    assert!((1.0..=5.0).contains(&sweep.knee_per_s.unwrap()), "{sweep}");
    assert_eq!(sweep.limit, Some(RateVerdict::MissedSlo), "{sweep}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_even_be_warmed_up_ends_the_sweep() {
    let mut config = open();
    config.warmup_requests = 5;
    let sweep =
        over(&config, SWEEP, || Memory::new(1 << 16, |_| Answer { status: 500, ..Answer::json("") })).await;
    assert_eq!(sweep.steps.len(), 1);
    assert!(!sweep.ok() && sweep.steps[0].verdict == RateVerdict::WarmupFailed, "{sweep}");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_ends_with_its_steps_and_says_that_more_are_needed() {
    let few = SweepConfig { steps_max: 3, ..SWEEP };
    let sweep = over(&open(), few, || Memory::new(1 << 16, |_| Answer::json(TWO_TOKENS))).await;
    assert_eq!((sweep.steps.len(), sweep.knee_per_s, sweep.too_high_per_s), (3, Some(4.0), None));
    assert!(!sweep.ok() && sweep.to_string().contains("\nno knee      up to 4.000 requests/s"), "{sweep}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_has_no_rate_to_sweep() {
    let mut closed = config(Api::Generate, false);
    closed.load = Load::Closed { concurrency: 1, stop: Stop::Requests(1) };
    assert!(matches!(super::sweep(&closed, SWEEP, &silent()).await, Err(Error::Config(_))));
    let none = SweepConfig { steps_max: 0, ..SWEEP };
    assert!(matches!(super::sweep(&open(), none, &silent()).await, Err(Error::Config(_))));
}
