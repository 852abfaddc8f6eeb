use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Error, run, run_over};
use crate::config::{Api, BenchConfig, Load, Stop};
use crate::pacer::Pacer;
use crate::progress::{Progress, Silent, Total};
use crate::report::Report;
use crate::testing::{Answer, Asked, Close, Memory, OverTcp, STREAM, TWO_TOKENS, config, run_in_memory};
use expect_test::{Expect, expect};

/// Gives the answer to one request and compares the verdict.
async fn check(api: Api, stream: bool, answer: Answer, expect: Expect) {
    check_config(&config(api, stream), move |_| answer.clone(), expect).await;
}

async fn check_config(
    config: &BenchConfig,
    script: impl Fn(Asked) -> Answer + Send + Sync + 'static,
    expect: Expect,
) {
    expect.assert_eq(&verdict(&run_in_memory(config, script).await));
}

fn verdict(report: &Report) -> String {
    let requests = report.requests;
    let mut text = format!("ok={} succeeded={} failed={}", report.ok(), requests.succeeded, requests.failed);
    for (kind, failures) in &report.failures {
        text.extend([format!("\n{} × {kind}: {}", failures.count, failures.example)]);
    }
    text
}

fn silent() -> Arc<dyn Progress> {
    Arc::new(Silent)
}

#[tokio::test(start_paused = true)]
async fn a_right_unary_reply_succeeds() {
    let succeeds = || expect!["ok=true succeeded=1 failed=0"];
    check(Api::Generate, false, Answer::json(TWO_TOKENS), succeeds()).await;
    let usage_only =
        r#"{"choices":[{"text":"ab","finish_reason":"length"}],"usage":{"completion_tokens":2}}"#;
    check(Api::Completions, false, Answer::json(usage_only), succeeds()).await;
    check(Api::Completions, false, Answer::json(usage_only).byte_by_byte(), succeeds()).await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_unary_reply_is_counted_under_its_kind() {
    let table = [
        (
            Answer { status: 503, ..Answer::json("busy") },
            expect![[r"
            ok=false succeeded=0 failed=1
            1 × status_503: busy"]],
        ),
        (
            Answer::json("nonsense"),
            expect![[r"
            ok=false succeeded=0 failed=1
            1 × bad_json: expected ident at line 1 column 2: nonsense"]],
        ),
        (
            Answer { close: Some(Close::BeforeEnd), ..Answer::json(TWO_TOKENS) },
            expect![[r"
            ok=false succeeded=0 failed=1
            1 × connection_lost: error reading a body from connection: unexpected EOF during chunk size line"]],
        ),
        (
            Answer::json(&" ".repeat(5000)),
            expect![[r"
            ok=false succeeded=0 failed=1
            1 × too_large: the reply is larger than 4096 bytes"]],
        ),
        (
            Answer::json(r#"{"error":{"message":"no"}}"#),
            expect![[r#"
            ok=false succeeded=0 failed=1
            1 × error_reply: {"message":"no"}"#]],
        ),
        (
            Answer::json(r#"{"choices":[{"token_ids":[5],"finish_reason":"length"}]}"#),
            expect![[r"
            ok=false succeeded=0 failed=1
            1 × token_count: 1 tokens, 2 asked, finish reason `length`"]],
        ),
    ];
    for (answer, expect) in table {
        check(Api::Generate, false, answer, expect).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_stream_succeeds_wherever_it_is_split() {
    let succeeds = || expect!["ok=true succeeded=1 failed=0"];
    check(Api::Generate, true, Answer::events(&STREAM), succeeds()).await;
    check(Api::Generate, true, Answer::events(&STREAM).byte_by_byte(), succeeds()).await;
    let whole = STREAM.concat();
    for at in 0..=whole.len() {
        let (left, right) = whole.split_at(at);
        check(Api::Generate, true, Answer::events(&[left, right]), succeeds()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn done_inside_a_text_does_not_end_a_stream() {
    let events = [
        "data: {\"choices\":[{\"text\":\"data: [DONE]\"}]}\n\n",
        "data: {\"choices\":[{\"text\":\"\\n\\ndata: [DONE]\\n\\n\",\"finish_reason\":\"length\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
    ];
    let answer = Answer::events(&events);
    check(Api::Completions, true, answer, expect!["ok=true succeeded=1 failed=0"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_is_counted_under_its_kind() {
    let table: [(Answer, Expect); 6] = [
        (
            Answer::events(&STREAM[..3]),
            expect![[r"
            ok=false succeeded=0 failed=1
            1 × bad_stream: the stream ended before [DONE]"]],
        ),
        (
            Answer::events(&[STREAM[0], "data: {\"choi"]),
            expect![[r"
            ok=false succeeded=0 failed=1
            1 × bad_stream: the stream ended inside an event"]],
        ),
        (
            Answer::events(&[STREAM[0], "data: {\"error\":{\"code\":\"lost\"}}\n\n", STREAM[3]]),
            expect![[r#"
            ok=false succeeded=0 failed=1
            1 × error_reply: {"code":"lost"}"#]],
        ),
        (
            Answer { close: Some(Close::BeforeEnd), ..Answer::events(&STREAM[..1]) },
            expect![[r"
            ok=false succeeded=0 failed=1
            1 × connection_lost: error reading a body from connection: unexpected EOF during chunk size line"]],
        ),
        (
            Answer::json(TWO_TOKENS),
            expect![[r"
            ok=false succeeded=0 failed=1
            1 × bad_stream: the reply is not text/event-stream"]],
        ),
        (
            Answer::events(&[&format!(": {}", "x".repeat(5000))]),
            expect![[r"
            ok=false succeeded=0 failed=1
            1 × too_large: an event of the stream is larger than the limit"]],
        ),
    ];
    for (answer, expect) in table {
        check(Api::Generate, true, answer, expect).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_slower_than_the_limit_is_a_timeout() {
    let mut config = config(Api::Generate, false);
    config.limits.request_timeout = Duration::from_secs(2);
    let slow = |_| {
        let not_before = Some(tokio::time::Instant::now() + Duration::from_secs(3));
        Answer { not_before, ..Answer::json(TWO_TOKENS) }
    };
    check_config(
        &config,
        slow,
        expect![[r"
        ok=false succeeded=0 failed=1
        1 × timeout: no complete reply within 2 s"]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_closes_between_requests_is_replaced() {
    let mut config = config(Api::Generate, false);
    config.load = Load::Closed { concurrency: 2, stop: Stop::Requests(20) };
    let closing = Answer { close: Some(Close::AfterEnd), ..Answer::json(TWO_TOKENS) };
    let report = run_in_memory(&config, move |_| closing.clone()).await;
    assert_eq!(verdict(&report), "ok=true succeeded=20 failed=0");
    assert_eq!(report.connections_opened, 20);
}

#[tokio::test(start_paused = true)]
async fn connections_are_reused_after_replies_and_after_error_replies() {
    let mut config = config(Api::Generate, false);
    config.load = Load::Closed { concurrency: 2, stop: Stop::Requests(20) };
    let status = |number| if number % 2 == 0 { 200 } else { 500 };
    let report = run_in_memory(&config, move |asked| Answer {
        status: status(asked.number),
        ..Answer::json(TWO_TOKENS)
    })
    .await;
    assert_eq!((report.requests.succeeded, report.requests.failed), (10, 10));
    assert_eq!(report.connections_opened, 2);
}

#[tokio::test(start_paused = true)]
async fn a_run_gives_up_when_too_many_requests_fail() {
    let mut config = config(Api::Generate, false);
    config.load = Load::Closed { concurrency: 4, stop: Stop::Requests(1_000_000) };
    config.limits.failures_max = 10;
    let report = run_in_memory(&config, |_| Answer { status: 500, ..Answer::json("") }).await;
    assert!(report.gave_up && !report.ok());
    assert!((10..14).contains(&report.requests.failed), "{}", verdict(&report));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_the_warm_up_is_not_measured() {
    let mut config = config(Api::Generate, false);
    config.warmup_requests = 100;
    config.limits.failures_max = 10;
    let report = run_in_memory(&config, |_| Answer { status: 500, ..Answer::json("") }).await;
    assert!(report.gave_up && !report.ok());
    assert_eq!((report.requests.warmup_failed, report.requests.failed, report.e2e_ms), (10, 0, None));
}

#[tokio::test(start_paused = true)]
async fn warm_up_requests_are_checked_but_not_measured() {
    let mut config = config(Api::Generate, false);
    config.warmup_requests = 3;
    let slow_start = |asked: Asked| {
        let not_before = (asked.number < 3).then(|| tokio::time::Instant::now() + Duration::from_secs(1));
        Answer { not_before, status: if asked.number == 1 { 500 } else { 200 }, ..Answer::json(TWO_TOKENS) }
    };
    let report = run_in_memory(&config, slow_start).await;
    assert_eq!(
        verdict(&report),
        "ok=false succeeded=1 failed=0\n1 × warmup.status_500: ".to_owned() + TWO_TOKENS
    );
    assert_eq!((report.requests.warmup_succeeded, report.requests.warmup_failed), (2, 1));
    let e2e = report.e2e_ms.unwrap();
    assert_eq!(e2e.count, 1);
    assert!(e2e.max < 1.0, "{e2e:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pipe_of_one_byte_is_enough() {
    let transport = Memory::new(1, |_| Answer::events(&STREAM));
    let report = run_over(&config(Api::Generate, true), transport, &Pacer::Runtime, &silent()).await;
    assert_eq!(verdict(&report.unwrap()), "ok=true succeeded=1 failed=0");
}

#[tokio::test]
async fn both_loops_work_over_tcp() {
    let server = OverTcp::start(|_| Answer::events(&STREAM)).await;
    let mut config = config(Api::Generate, true);
    config.target.url.clone_from(&server.url);
    config.load = Load::Closed { concurrency: 8, stop: Stop::Requests(200) };
    config.target.pids = vec![std::process::id()];
    let closed = run(&config, &silent()).await.unwrap();
    assert_eq!(verdict(&closed), "ok=true succeeded=200 failed=0");
    assert_eq!(closed.itl_ms.unwrap().count, 200);
    assert!(closed.rss_peak_bytes.unwrap() > 1 << 20);
    assert!(closed.connections_opened <= 8);

    let arrivals = crate::config::ArrivalProcess::Poisson;
    let duration = Duration::from_millis(200);
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

/// A process that does nothing until it is told to end.
fn idle_process() -> Child {
    Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_process_that_vanishes_during_the_run_is_named_in_the_report() {
    let child = idle_process();
    let pid = child.id();
    let mut config = config(Api::Generate, false);
    config.target.pids = vec![pid, std::process::id()];
    let child = Mutex::new(Some(child));
    let report = run_in_memory(&config, move |_| {
        let mut child = child.lock().unwrap().take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        Answer::json(TWO_TOKENS)
    })
    .await;
    assert_eq!(report.process_errors, [format!("process {pid} is gone")]);
    assert!(!report.ok());
    assert_eq!(report.cpu_ms_per_request, None, "a part of the cost is not the cost");
    assert_eq!(report.processes.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_not_there_to_begin_with_ends_the_run() {
    let mut child = idle_process();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut config = config(Api::Generate, false);
    config.target.pids = vec![child.id()];
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
    let mut config = config(Api::Generate, false);
    config.warmup_requests = 1;
    config.load = Load::Closed { concurrency: 1, stop: Stop::Requests(2) };
    let script = |asked: Asked| Answer { status: 200 + asked.number as u16 % 2, ..Answer::json(TWO_TOKENS) };
    let progress: Arc<dyn Progress> = Arc::<Log>::clone(&log);
    run_over(&config, Memory::new(1 << 16, script), &Pacer::Runtime, &progress).await.unwrap();
    expect![[r"
        [it, warm-up: Requests(1) +]
        [it: Requests(2) - +]
    "]]
    .assert_eq(&log.0.lock().unwrap());
}
