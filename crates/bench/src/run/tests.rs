use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use tokio::time::Instant;

use super::{Error, run, run_over};
use crate::config::{Api, ArrivalProcess, BenchConfig, Load, Stop};
use crate::pacer::Pacer;
use crate::progress::{Progress, Total};
use crate::report::Report;
use crate::testing::{
    Answer, Asked, Close, Memory, OverTcp, STREAM, TWO_TOKENS, config, run_in_memory, silent,
};

const SUCCEEDED: &str = "ok=true succeeded=1 failed=0";

/// Gives the answer to one request, and compares why it failed. Nothing is expected of a right one.
async fn check(api: Api, stream: bool, answer: Answer, failure: &str) {
    let report = run_in_memory(&config(api, stream), move |_| answer.clone()).await;
    let failed = || format!("ok=false succeeded=0 failed=1\n1 × {failure}");
    assert_eq!(verdict(&report), if failure.is_empty() { SUCCEEDED.to_owned() } else { failed() });
}

fn verdict(report: &Report) -> String {
    let requests = report.requests;
    let mut text = format!("ok={} succeeded={} failed={}", report.ok(), requests.succeeded, requests.failed);
    for (kind, failures) in &report.failures {
        text.extend([format!("\n{} × {kind}: {}", failures.count, failures.example)]);
    }
    text
}

/// A configuration with so many clients and requests.
fn closed(concurrency: u32, requests: u64) -> BenchConfig {
    let load = Load::Closed { concurrency, stop: Stop::Requests(requests) };
    BenchConfig { load, ..config(Api::Generate, false) }
}

const LOST: &str =
    "connection_lost: error reading a body from connection: unexpected EOF during chunk size line";

#[tokio::test(start_paused = true)]
async fn a_unary_reply_is_right_or_counted_under_the_kind_of_its_failure() {
    let two = || Answer::json(TWO_TOKENS);
    let short = r#"{"choices":[{"token_ids":[5],"finish_reason":"length"}]}"#;
    for (answer, failure) in [
        (two(), ""),
        (Answer { status: 503, ..Answer::json("busy") }, "status_503: busy"),
        (Answer::json("nonsense"), "bad_json: expected ident at line 1 column 2: nonsense"),
        (Answer { close: Some(Close::BeforeEnd), ..two() }, LOST),
        (Answer::json(&" ".repeat(5000)), "too_large: the reply is larger than 4096 bytes"),
        (Answer::json(r#"{"error":{"message":"no"}}"#), r#"error_reply: {"message":"no"}"#),
        (Answer::json(short), "token_count: 1 tokens, 2 asked, finish reason `length`"),
    ] {
        check(Api::Generate, false, answer, failure).await;
    }
    let usage = r#"{"choices":[{"text":"ab","finish_reason":"length"}],"usage":{"completion_tokens":2}}"#;
    check(Api::Completions, false, Answer::json(usage), "").await;
    check(Api::Completions, false, Answer::json(usage).byte_by_byte(), "").await;
}

#[tokio::test(start_paused = true)]
async fn a_right_stream_succeeds_wherever_it_is_split() {
    check(Api::Generate, true, Answer::events(&STREAM), "").await;
    check(Api::Generate, true, Answer::events(&STREAM).byte_by_byte(), "").await;
    let whole = STREAM.concat();
    for at in 0..=whole.len() {
        let (left, right) = whole.split_at(at);
        check(Api::Generate, true, Answer::events(&[left, right]), "").await;
    }
    let done_inside_a_text = [
        "data: {\"choices\":[{\"text\":\"data: [DONE]\"}]}\n\n",
        "data: {\"choices\":[{\"text\":\"\\n\\ndata: [DONE]\\n\\n\",\"finish_reason\":\"length\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
    ];
    check(Api::Completions, true, Answer::events(&done_inside_a_text), "").await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_is_counted_under_its_kind() {
    let lost = [STREAM[0], "data: {\"error\":{\"code\":\"lost\"}}\n\n", STREAM[3]];
    let long = format!(": {}", "x".repeat(5000));
    for (answer, failure) in [
        (Answer::events(&STREAM[..3]), "bad_stream: the stream ended before [DONE]"),
        (Answer::events(&[STREAM[0], "data: {\"choi"]), "bad_stream: the stream ended inside an event"),
        (Answer::events(&lost), r#"error_reply: {"code":"lost"}"#),
        (Answer { close: Some(Close::BeforeEnd), ..Answer::events(&STREAM[..1]) }, LOST),
        (Answer::json(TWO_TOKENS), "bad_stream: the reply is not text/event-stream"),
        (Answer::events(&[&long]), "too_large: an event of the stream is larger than the limit"),
    ] {
        check(Api::Generate, true, answer, failure).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_slower_than_the_limit_is_a_timeout() {
    let not_before = Some(Instant::now() + Duration::from_secs(31));
    let slow = Answer { not_before, ..Answer::json(TWO_TOKENS) };
    check(Api::Generate, false, slow, "timeout: no complete reply within 30 s").await;
}

#[tokio::test(start_paused = true)]
async fn connections_are_reused_also_after_error_replies_and_replaced_when_they_close() {
    for (close, status, opened) in [(Some(Close::AfterEnd), 200, 20), (None, 200, 2), (None, 500, 2)] {
        let script = move |asked: Asked| {
            let status = if asked.number.is_multiple_of(2) { 200 } else { status };
            Answer { status, close, ..Answer::json(TWO_TOKENS) }
        };
        let report = run_in_memory(&closed(2, 20), script).await;
        assert_eq!(report.requests.succeeded, if status == 200 { 20 } else { 10 });
        assert_eq!(report.connections_opened, opened);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_gives_up_when_too_many_requests_fail_and_in_the_warm_up_measures_nothing() {
    let mut config = closed(4, 1_000_000);
    config.limits.failures_max = 10;
    let report = run_in_memory(&config, |_| Answer { status: 500, ..Answer::json("") }).await;
    assert!(report.gave_up && !report.ok());
    assert!((10..14).contains(&report.requests.failed), "{}", verdict(&report));
    config.warmup_requests = 100;
    config.load = Load::Closed { concurrency: 1, stop: Stop::Requests(1) };
    let report = run_in_memory(&config, |_| Answer { status: 500, ..Answer::json("") }).await;
    assert!(report.gave_up && !report.ok());
    assert_eq!((report.requests.warmup_failed, report.requests.failed, report.e2e_ms), (10, 0, None));
}

#[tokio::test(start_paused = true)]
async fn warm_up_requests_are_checked_but_not_measured() {
    let mut config = config(Api::Generate, false);
    config.warmup_requests = 3;
    let slow_start = |asked: Asked| {
        let not_before = (asked.number < 3).then(|| Instant::now() + Duration::from_secs(1));
        Answer { not_before, status: if asked.number == 1 { 500 } else { 200 }, ..Answer::json(TWO_TOKENS) }
    };
    let report = run_in_memory(&config, slow_start).await;
    let expected = format!("ok=false succeeded=1 failed=0\n1 × warmup.status_500: {TWO_TOKENS}");
    assert_eq!(verdict(&report), expected);
    assert_eq!((report.requests.warmup_succeeded, report.requests.warmup_failed), (2, 1));
    let e2e = report.e2e_ms.unwrap();
    assert_eq!(e2e.count, 1);
    assert!(e2e.max < 1.0, "{e2e:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pipe_of_one_byte_is_enough() {
    let transport = Memory::new(1, |_| Answer::events(&STREAM));
    let report = run_over(&config(Api::Generate, true), transport, &Pacer::Runtime, &silent()).await;
    assert_eq!(verdict(&report.unwrap()), SUCCEEDED);
}

#[tokio::test]
async fn both_loops_work_over_tcp() {
    let server = OverTcp::start(|_| Answer::events(&STREAM)).await;
    let mut config = config(Api::Generate, true);
    config.target.url.clone_from(&server.url);
    config.load = closed(8, 200).load;
    config.target.pids = vec![std::process::id()];
    let closed = run(&config, &silent()).await.unwrap();
    assert_eq!(verdict(&closed), "ok=true succeeded=200 failed=0");
    assert_eq!(closed.itl_ms.unwrap().count, 200);
    assert!(closed.rss_peak_bytes.unwrap() > 1 << 20);
    assert!(closed.connections_opened <= 8);

    let (arrivals, duration) = (ArrivalProcess::Poisson, Duration::from_millis(200));
    config.load = Load::Open { rate_per_s: 500.0, arrivals, duration, in_flight_max: 1000 };
    let open = run(&config, &silent()).await.unwrap();
    assert!(open.ok(), "{}", verdict(&open));
    assert!((50..150).contains(&open.requests.succeeded), "{}", verdict(&open));
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_each_request() {
    let server = OverTcp::start(|_| Answer::json(TWO_TOKENS)).await;
    let mut config = config(Api::Generate, false);
    config.target.url.clone_from(&server.url);
    drop(server);
    let report = run(&config, &silent()).await.unwrap();
    assert!(report.failures.contains_key("connect"), "{}", verdict(&report));
    assert!(!report.ok());
}

/// A process that does nothing until it is told to end, and how to end it.
fn idle_process() -> (u32, impl FnMut()) {
    let mut child: Child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    (child.id(), move || {
        child.kill().unwrap();
        child.wait().unwrap();
    })
}

#[tokio::test(start_paused = true)]
async fn a_process_that_vanishes_during_the_run_or_its_warm_up_is_named_in_the_report() {
    for warmup_requests in [0, 1] {
        let (pid, end) = idle_process();
        let mut config = BenchConfig { warmup_requests, ..config(Api::Generate, false) };
        config.target.pids = vec![pid, std::process::id()];
        let end = Mutex::new(end);
        let report = run_in_memory(&config, move |asked| {
            if asked.number == 0 {
                end.lock().unwrap()();
            }
            Answer::json(TWO_TOKENS)
        })
        .await;
        assert_eq!(report.process_errors, [format!("process {pid} is gone")]);
        assert!(!report.ok() && report.requests.succeeded == 1, "what was measured is kept");
        assert_eq!(report.cpu_ms_per_request, None, "a part of the cost is not the cost");
        assert_eq!(report.processes.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_not_there_to_begin_with_ends_the_run() {
    let (pid, mut end) = idle_process();
    end();
    let mut config = config(Api::Generate, false);
    config.target.pids = vec![pid];
    let result = run_over(&config, Memory::new(1, |_| Answer::json("")), &Pacer::Runtime, &silent()).await;
    assert!(matches!(result, Err(Error::Process(_))));
}

#[tokio::test]
async fn a_bad_configuration_ends_the_run_before_anything_is_sent() {
    let mut config = config(Api::Generate, false);
    config.target.url = "ftp://it.test".to_owned();
    let error = run(&config, &silent()).await.unwrap_err();
    let Error::Config(errors) = error else { panic!("{error}") };
    assert_eq!(errors.to_string(), "url `ftp://it.test`: must begin with http:// or https://");
}

#[tokio::test(start_paused = true)]
async fn progress_hears_of_each_phase_and_each_reply() {
    #[derive(Default)]
    struct Log(Mutex<String>);
    impl Progress for Log {
        fn begin(&self, phase: &str, total: Total) {
            self.0.lock().unwrap().extend([format!("[{phase}: {total:?}")]);
        }
        fn finished(&self, succeeded: bool) {
            *self.0.lock().unwrap() += if succeeded { " +" } else { " -" };
        }
        fn end(&self) {
            *self.0.lock().unwrap() += "]\n";
        }
    }
    let log = Arc::new(Log::default());
    let config = BenchConfig { warmup_requests: 1, ..closed(1, 2) };
    let script = |asked: Asked| Answer { status: 200 + asked.number as u16 % 2, ..Answer::json(TWO_TOKENS) };
    let progress: Arc<dyn Progress> = Arc::<Log>::clone(&log);
    run_over(&config, Memory::new(1 << 16, script), &Pacer::Runtime, &progress).await.unwrap();
    expect![[r"
        [it, warm-up: Requests(1) +]
        [it: Requests(2) - +]
    "]]
    .assert_eq(&log.0.lock().unwrap());
}
