//! The open loop against a server that stalls, on a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::arrivals::Arrivals;
use crate::config::{
    Api, ArrivalProcess, BenchConfig, Lengths, Load, PromptSource, SessionConfig, Span, Stop, TimeSpan,
};
use crate::connection::Pool;
use crate::input::Trace;
use crate::lag::LoopLag;
use crate::pacer::Pacer;
use crate::percentiles::Percentiles;
use crate::phase::Phase;
use crate::report::{Clock, Report};
use crate::run::run_over;
use crate::testing::{Answer, Memory, TWO_TOKENS, config, run_in_memory, silent};

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

/// This many requests per second in equal gaps.
fn arriving(rate_per_s: f64, duration: Duration, in_flight_max: u32) -> Load {
    Load::Open { rate_per_s, arrivals: ArrivalProcess::Constant, duration, in_flight_max }
}

/// 100 requests per second for ten seconds.
fn open(in_flight_max: u32) -> BenchConfig {
    let load = arriving(100.0, Duration::from_secs(10), in_flight_max);
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
    let load = Load::Closed { concurrency: 1, stop: Stop::Requests(1000) };
    let closed = BenchConfig { load, ..config(Api::Generate, false) };
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
        ignore_eos: true,
        stream: false,
        limits: config.limits,
        lag: Arc::new(LoopLag::new()),
    };
    let phase = Phase::new(&Arc::new(caller), &silent(), &config.report, None);
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
    let load = Load::Closed { concurrency: 3, stop: Stop::Time(Duration::from_millis(2500)) };
    let config = BenchConfig { load, ..config(Api::Generate, false) };
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
    let (config, silent) = (config(Api::Generate, false), silent());
    tokio::select! {
        _ = run_over(&config, server, &Pacer::Runtime, &silent) => panic!("the reply takes longer"),
        asked = seen.recv() => asked.expect("the request arrives"),
    }
    // The server finds its client gone when it answers, instead of waiting for a next request.
    let mut connections = std::mem::take(&mut *connections.lock().unwrap());
    let ended = timeout(Duration::from_mins(1), connections.join_next()).await;
    assert!(ended.expect("the connection ends").is_some());
}

/// Sessions of three turns with a second of thinking; what each request was asked with, and when.
async fn run_sessions(
    load: Load,
    answer: impl Fn(u64) -> Answer + Send + Sync + 'static,
) -> (Report, Vec<(Duration, Vec<u64>)>) {
    let mut config = BenchConfig { load, ..config(Api::Generate, false) };
    let second = Duration::from_secs(1);
    config.workload.session = Some(SessionConfig {
        turns: Span { first: 3, last: 3 },
        turn_tokens: Lengths::fixed(4),
        think_time: TimeSpan { first: second, last: second },
    });
    let begin = Instant::now();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let report = run_in_memory(&config, move |asked| {
        let ids = asked.body["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap());
        seen.lock().unwrap().push((begin.elapsed(), ids.collect()));
        answer(asked.number)
    });
    let report = report.await;
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    (report, asked)
}

/// Whole seconds and prompt lengths.
fn course(asked: &[(Duration, Vec<u64>)]) -> Vec<(u64, usize)> {
    asked.iter().map(|(at, ids)| (at.as_secs(), ids.len())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_on_from_what_the_server_answered_after_thinking() {
    let load = Load::Closed { concurrency: 1, stop: Stop::Requests(5) };
    let (report, asked) = run_sessions(load, |_| Answer::json(TWO_TOKENS)).await;
    assert!(report.ok());
    // Three turns of one session and, at once, two of the next: the number of requests is the limit.
    assert_eq!(course(&asked), [(0, 4), (1, 10), (2, 16), (2, 4), (3, 10)]);
    let (first, second) = (&asked[0].1, &asked[1].1);
    assert_eq!(second[..6], [first.as_slice(), &[5, 6]].concat());
    assert!(report.e2e_ms.unwrap().max < 5.0, "thinking is not waiting");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_arrive_at_a_rate_run_side_by_side_until_the_time_is_over() {
    let load = arriving(2.0, Duration::from_millis(1600), 10);
    let (report, asked) = run_sessions(load, |_| Answer::json(TWO_TOKENS)).await;
    assert!(report.ok());
    // Sessions at 0, 0.5, 1 and 1.5 s; second turns only of the first two, before 1.6 s.
    assert_eq!(course(&asked), [(0, 4), (0, 4), (1, 10), (1, 4), (1, 10), (1, 4)]);
    assert_eq!(report.clock, Clock::IntendedTime);
}

#[tokio::test(start_paused = true)]
async fn a_failed_turn_ends_its_session() {
    let load = Load::Closed { concurrency: 1, stop: Stop::Requests(4) };
    let answer = |number| Answer { status: if number == 1 { 500 } else { 200 }, ..Answer::json(TWO_TOKENS) };
    let (report, asked) = run_sessions(load, answer).await;
    assert_eq!((report.requests.succeeded, report.requests.failed), (3, 1));
    assert_eq!(course(&asked), [(0, 4), (1, 10), (1, 4), (2, 10)]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_ids_cannot_be_gone_on_from() {
    let load = Load::Closed { concurrency: 1, stop: Stop::Requests(1) };
    let text = r#"{"choices":[{"text":"ab","finish_reason":"length"}],"usage":{"completion_tokens":2}}"#;
    let (report, _) = run_sessions(load, move |_| Answer::json(text)).await;
    assert_eq!(report.failures["no_token_ids"].count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_schedule_sends_when_the_trace_did_and_to_its_end() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let row = |at| format!(r#"{{"timestamp":{at},"input_length":4,"output_length":2,"hash_ids":[]}}"#);
    std::fs::write(file.path(), [5000, 9000, 6000].map(row).join("\n")).unwrap();
    let trace = Arc::new(Trace::read(file.path(), None, 8).unwrap());
    let mut config = config(Api::Generate, false);
    config.workload.prompts = PromptSource::Trace { trace };
    let mut sent = async |speed, duration| {
        config.load = Load::FixedSchedule { speed, duration, in_flight_max: 10 };
        let begin = Instant::now();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let times = Arc::clone(&seen);
        let report = run_in_memory(&config, move |_| {
            times.lock().unwrap().push(begin.elapsed().as_millis() / 100);
            Answer::json(TWO_TOKENS)
        });
        assert_eq!(report.await.clock, Clock::IntendedTime);
        std::mem::take(&mut *seen.lock().unwrap())
    };
    assert_eq!(sent(1.0, None).await, [0, 10, 40]);
    assert_eq!(sent(2.0, None).await, [0, 5, 20]);
    assert_eq!(sent(1.0, Some(Duration::from_secs(3))).await, [0, 10]);
}
