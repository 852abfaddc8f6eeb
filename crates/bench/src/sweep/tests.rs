//! Sweeps over servers of known capacity, on a paused clock.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::{RateVerdict, Sweep, SweepConfig, sweep_over};
use crate::config::{Api, ArrivalProcess, BenchConfig, Load, PromptSource, SessionConfig, Stop, TimeSpan};
use crate::input::{DataSet, LineOrder};
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
async fn a_step_that_measured_nothing_is_no_limit_of_the_server() {
    let check = |sweep: &Sweep, steps: usize, verdict: RateVerdict, words: &str| {
        assert_eq!(
            (sweep.steps.len(), sweep.limit, sweep.knee_per_s),
            (steps, Some(verdict), None),
            "{sweep}"
        );
        assert!(!sweep.ok(), "{sweep}");
        assert!(
            sweep.to_string().contains(&format!("FAILED       a step measured nothing: {words}")),
            "{sweep}"
        );
    };
    let mut short = open();
    let Load::Open { duration, .. } = &mut short.load else { unreachable!() };
    *duration = Duration::from_millis(1);
    let sweep = over(&short, SWEEP, || Memory::new(1 << 16, |_| Answer::json(TWO_TOKENS))).await;
    check(&sweep, 1, RateVerdict::NoArrivals, "no arrivals");
    let mut config = open();
    config.warmup_requests = 5;
    let steps = Cell::new(0);
    let sweep = over(&config, SWEEP, || {
        steps.set(steps.get() + 1);
        let fails = AtomicBool::new(steps.get() == 3);
        Memory::new(1 << 16, move |_| {
            let status = if fails.swap(false, Ordering::Relaxed) { 503 } else { 200 };
            Answer { status, ..Answer::json(TWO_TOKENS) }
        })
    })
    .await;
    check(&sweep, 3, RateVerdict::WarmupFailed, "warm-up failed");
}

#[tokio::test(start_paused = true)]
async fn a_step_over_a_data_set_begins_where_the_one_before_it_ended() {
    let mut config = open();
    let lines: Vec<_> = (0..40).map(|id| format!("{{\"token_ids\":[{id},7]}}")).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    let set = Arc::new(DataSet::read(file.path()).unwrap());
    config.workload.prompts = PromptSource::DataSet { set, order: LineOrder::FILE };
    let few = SweepConfig { steps_max: 3, ..SWEEP };
    let sweep = over(&config, few, || Memory::new(1 << 16, |_| Answer::json(TWO_TOKENS))).await;
    let mut sent = 0;
    for step in &sweep.steps {
        let PromptSource::DataSet { order, .. } = &step.report.workload.prompts else { unreachable!() };
        assert_eq!(order.line(0), sent);
        sent += step.report.requests.succeeded;
    }
    let warning = format!("WARNING      {sent} prompts sent of a data set of 40: ");
    assert!(sent > 40 && sweep.to_string().contains(&warning), "{sweep}");
}

#[tokio::test(start_paused = true)]
async fn the_turns_of_a_session_and_shed_arrivals_are_no_prompts_of_their_own() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"token_ids\":[1,7]}\n".repeat(200)).unwrap();
    let set = Arc::new(DataSet::read(file.path()).unwrap());
    let mut config = open();
    config.workload.prompts = PromptSource::DataSet { set, order: LineOrder::FILE };
    let Load::Open { in_flight_max, .. } = &mut config.load else { unreachable!() };
    *in_flight_max = 1;
    let one = SweepConfig { steps_max: 1, ..SWEEP };
    let shedding = over(&config, one, || one_at_a_time(Duration::from_secs(10))).await;
    let requests = shedding.steps[0].report.requests;
    assert!(requests.shed > 0 && requests.prompts == requests.succeeded, "{requests:?}");
    let Load::Open { in_flight_max, .. } = &mut config.load else { unreachable!() };
    *in_flight_max = 4096;
    config.workload.session = Some(SessionConfig {
        turns: "3".parse().unwrap(),
        turn_tokens: "4".parse().unwrap(),
        think_time: TimeSpan { first: Duration::ZERO, last: Duration::ZERO },
    });
    let talking = over(&config, one, || Memory::new(1 << 16, |_| Answer::json(TWO_TOKENS))).await;
    let requests = talking.steps[0].report.requests;
    assert_eq!(requests.succeeded, 3 * requests.prompts, "{requests:?}");
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
