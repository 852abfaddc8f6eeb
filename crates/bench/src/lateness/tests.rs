use std::time::{Duration, Instant};

use super::{Signs, reasons};
use crate::config::{Api, Load, Stop};
use crate::pacer::Pacer;
use crate::percentiles::Percentiles;
use crate::report::{GeneratorUse, Report};
use crate::run::run_over;
use crate::testing::{Answer, Memory, STREAM, config, silent};
use crate::times::{Sample, Times};

fn lag(ms: u64) -> Option<Percentiles> {
    let mut times = Times::new();
    times.record(Sample::Known(Duration::from_millis(ms)));
    Percentiles::of(&times)
}

#[track_caller]
fn check(change: impl FnOnce(&mut Signs), expected: &[&str]) {
    let mut signs = Signs {
        elapsed: Duration::from_secs(10),
        lag_max: Duration::from_millis(10),
        send_lag: lag(3),
        read_lag: lag(3),
        coalesced: Some(0.25),
        generator: Some(busy(0.5)),
    };
    change(&mut signs);
    assert_eq!(reasons(signs), expected, "{signs:?}");
}

fn busy(share: f64) -> GeneratorUse {
    GeneratorUse { cpu_ms_per_request: 0.1, cores_busy: share }
}

#[test]
fn a_generator_that_kept_up_is_no_reason() {
    check(|_| (), &[]);
    check(
        |signs| (signs.send_lag, signs.read_lag, signs.coalesced, signs.generator) = (None, None, None, None),
        &[],
    );
    check(|signs| signs.coalesced = Some(1.0), &[]);
}

#[test]
fn each_kind_of_lateness_is_a_reason_of_its_own() {
    check(
        |signs| signs.send_lag = lag(20),
        &["requests were sent late: send lag p99 is 20.0 ms, allowed are 10 ms"],
    );
    check(
        |signs| signs.read_lag = lag(20),
        &[
            "replies were read late: read lag p99 is 20.0 ms, allowed are 10 ms, and 25.0 % of the events were read \
           together with the one before",
        ],
    );
    check(
        |signs| (signs.read_lag, signs.coalesced) = (lag(20), None),
        &["replies were read late: read lag p99 is 20.0 ms, allowed are 10 ms"],
    );
    check(
        |signs| signs.generator = Some(busy(0.97)),
        &["the generator's thread was busy 97 % of the time, allowed are 90 %"],
    );
}

#[test]
fn a_bound_that_is_not_passed_or_cannot_be_judged_is_no_reason() {
    check(|signs| (signs.send_lag, signs.lag_max) = (lag(20), Duration::from_millis(21)), &[]);
    check(|signs| (signs.generator, signs.elapsed) = (Some(busy(1.5)), Duration::from_millis(900)), &[]);
    check(|signs| signs.generator = Some(busy(0.9)), &[]);
}

/// A run whose only thread is kept from its work for a while at each request.
async fn run_late(late_allowed: bool) -> Report {
    let mut config = config(Api::Generate, true);
    config.load = Load::Closed { concurrency: 1, stop: Stop::Requests(3) };
    config.report.lag_max = Duration::from_millis(10);
    config.report.late_allowed = late_allowed;
    let server = Memory::new(1 << 16, |_| {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(40) {
            std::hint::spin_loop();
        }
        Answer::events(&[&STREAM.concat()])
    });
    run_over(&config, server, &Pacer::exact().unwrap(), &silent()).await.unwrap()
}

#[tokio::test]
async fn a_generator_that_cannot_read_in_time_makes_the_run_invalid_unless_that_is_allowed() {
    let report = run_late(false).await;
    let [reason] = report.late.as_slice() else { panic!("{report}") };
    assert!(reason.starts_with("replies were read late: read lag p99 is "), "{report}");
    assert!(reason.ends_with("and 50.0 % of the events were read together with the one before"), "{report}");
    assert!(!report.ok() && report.to_string().contains("\nINVALID      replies were read late"), "{report}");

    let report = run_late(true).await;
    assert!(report.ok() && report.to_string().contains("\nLATE         replies were read late"), "{report}");
}
