//! The open loop against a server that stalls, on a paused clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::arrivals::Arrivals;
use crate::config::{Api, ArrivalProcess, BenchConfig, Load, Stop};
use crate::connection::Pool;
use crate::lag::LoopLag;
use crate::pacer::Pacer;
use crate::percentiles::Percentiles;
use crate::phase::Phase;
use crate::progress::{Progress, Silent};
use crate::report::{Clock, Report};
use crate::run::run_over;
use crate::testing::{Answer, Memory, TWO_TOKENS, config, run_in_memory};

/// Answers at once, but for the second between `stall` and `stall` + 1 s, when everything waits for its end.
async fn run_with_stall(config: &BenchConfig, stall: Duration) -> Report {
    let begin = Instant::now();
    let report = run_in_memory(config, move |_| {
        let stalled = begin.elapsed() >= stall && begin.elapsed() < stall + Duration::from_secs(1);
        let not_before = stalled.then(|| begin + stall + Duration::from_secs(1));
        Answer { not_before, ..Answer::json(TWO_TOKENS) }
    });
    report.await
}

/// 100 requests per second for ten seconds.
fn open(in_flight_max: u32) -> BenchConfig {
    let load = Load::Open {
        rate_per_s: 100.0,
        arrivals: ArrivalProcess::Constant,
        duration: Duration::from_secs(10),
        in_flight_max,
    };
    BenchConfig { load, ..config(Api::Generate, false) }
}

#[tokio::test(start_paused = true)]
async fn a_stall_of_one_second_shows_in_the_percentiles_of_an_open_loop() {
    let report = run_with_stall(&open(1000), Duration::from_secs(5)).await;
    assert!(report.ok());
    assert_eq!(report.requests.succeeded, 1000);
    assert_eq!(report.clock, Clock::IntendedTime);
    // A tenth of all requests met the stall and waited evenly between one second and none.
    let e2e = report.e2e_ms.unwrap();
    assert!((880.0..=920.0).contains(&e2e.p99), "{e2e:?}");
    assert!((480.0..=520.0).contains(&e2e.p95), "{e2e:?}");
    assert!(e2e.p50 < 5.0, "{e2e:?}");
    assert!((995.0..=1005.0).contains(&e2e.max), "{e2e:?}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_hides_the_same_stall_and_says_that_it_reports_service_time() {
    let closed = BenchConfig {
        load: Load::Closed { concurrency: 1, stop: Stop::Requests(1000) },
        ..config(Api::Generate, false)
    };
    let report = run_with_stall(&closed, Duration::ZERO).await;
    assert_eq!(report.clock, Clock::ServiceTime);
    let e2e = report.e2e_ms.unwrap();
    assert!(e2e.p99 < 5.0 && e2e.max > 990.0, "{e2e:?}");
}

#[tokio::test(start_paused = true)]
async fn arrivals_beyond_the_bound_are_shed_and_counted_instead_of_delayed() {
    // The stall begins between two arrivals, so that none falls on its edge.
    let report = run_with_stall(&open(40), Duration::from_millis(5005)).await;
    // Of the hundred arrivals in the stalled second forty are in flight at its end.
    assert_eq!((report.requests.succeeded, report.requests.shed), (940, 60));
    assert!(!report.ok());
    assert!(report.send_lag_ms.unwrap().max < 5.0);
}

#[tokio::test(start_paused = true)]
async fn a_generator_that_is_late_counts_its_lateness_as_latency() {
    let config = open(1000);
    let caller = crate::caller::Caller {
        pool: Arc::new(Pool::new(Memory::new(1 << 16, |_| Answer::json(TWO_TOKENS)))),
        head: crate::target::RequestHead::new(&config.target, false).unwrap(),
        workload: crate::workload::Workload::try_new(&config.target, &config.workload, None).unwrap(),
        expected: (&config.workload).into(),
        stream: false,
        limits: config.limits,
        lag: Arc::new(LoopLag::new()),
    };
    let progress: Arc<dyn Progress> = Arc::new(Silent);
    let phase = Phase::new(&Arc::new(caller), &progress, &config.report, None);
    let arrivals = Arrivals::new(ArrivalProcess::Constant, 100.0, 1);
    // By the time the loop runs, the second in which all requests were due has passed.
    tokio::time::advance(Duration::from_secs(2)).await;
    let sent = phase.open_loop(arrivals, Duration::from_secs(1), 1000, &Pacer::Runtime).await;
    sent.unwrap();
    let stats = phase.into_stats();
    assert_eq!(stats.succeeded, 100);
    for times in [&stats.times.e2e, &stats.send_lag] {
        let times = Percentiles::of(times).unwrap();
        // From one second for the last that was due to two for the first.
        assert!((1495.0..=1510.0).contains(&times.p50), "{times:?}");
        assert!((1995.0..=2005.0).contains(&times.max), "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_with_a_deadline_waits_for_what_is_in_flight() {
    let config = BenchConfig {
        load: Load::Closed { concurrency: 3, stop: Stop::Time(Duration::from_millis(2500)) },
        ..config(Api::Generate, false)
    };
    let report = run_in_memory(&config, |_| {
        let not_before = Some(Instant::now() + Duration::from_secs(1));
        Answer { not_before, ..Answer::json(TWO_TOKENS) }
    })
    .await;
    assert_eq!(report.requests.succeeded, 9);
    assert!((2.99..3.05).contains(&report.elapsed_s), "{}", report.elapsed_s);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_cuts_its_requests_off() {
    let (asked, mut seen) = tokio::sync::mpsc::channel::<()>(1);
    let server = Memory::new(1 << 16, move |_| {
        let _ = asked.try_send(());
        Answer { not_before: Some(Instant::now() + Duration::from_secs(5)), ..Answer::json(TWO_TOKENS) }
    });
    let connections = server.connections();
    let config = config(Api::Generate, false);
    let progress: Arc<dyn Progress> = Arc::new(Silent);
    tokio::select! {
        _ = run_over(&config, server, &Pacer::Runtime, &progress) => panic!("the reply takes longer"),
        asked = seen.recv() => asked.expect("the request arrives"),
    }
    // The server finds its client gone when it answers, instead of waiting for a next request.
    let mut connections = std::mem::take(&mut *connections.lock().unwrap());
    let ended = timeout(Duration::from_mins(1), connections.join_next()).await;
    assert!(ended.expect("the connection ends").is_some());
}
