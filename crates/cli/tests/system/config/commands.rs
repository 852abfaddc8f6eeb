//! `demo`, `bench`, help, and how a command ends.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Args, Call, Env, GENERATE, Ran, Tito, run, served};

#[tokio::test]
async fn the_demo_shows_the_whole_way_and_ends() {
    let ran = run(&["demo", "--port", "0", "--exit", "--engines", "3"], &[]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for mark in ["3 simulated vLLM engines: ", "tito serve listens on http://", "data: [DONE]"] {
        assert!(ran.stdout.contains(mark), "{mark}: {}", ran.stdout);
    }
    let count = |mark: &str| ran.stdout.matches(mark).count();
    assert_eq!(count("> POST /inference/v1/generate"), count(" tokens from engine "), "{}", ran.stdout);
    assert!(count(" tokens from engine ") >= 3, "{}", ran.stdout);
    assert!(!ran.stdout.contains("curl"), "a server that has ended invites nobody: {}", ran.stdout);
}

#[tokio::test]
async fn a_demo_that_stays_can_be_asked() {
    let mut demo = Tito::spawn(&["demo", "--port", "0"], &[]);
    let curl = demo.line("curl ").await;
    let (url, rest) = curl.trim().strip_prefix("curl http://").unwrap().split_once('/').unwrap();
    let body = rest.split_once("-d '").unwrap().1.trim_end_matches('\'');
    let body: Value = serde_json::from_str(body).unwrap();
    let reply = Call::post(url.parse().unwrap(), GENERATE, &body).send().await;
    assert_eq!((reply.status, reply.tokens().len()), (200, 8), "{}", reply.text());
    demo.signal(Signal::SIGINT);
    assert_eq!(demo.exit().await.code(), Some(0));
}

/// Small enough for a debug build, on a machine that may be busy: these tests are not about times.
const LOAD: &str = "--allow-late --requests 60 --warmup 6 --concurrency 4 --prompt-tokens 8-32 --output-tokens 5 --json --quiet";

/// Measures with that load, or with another that is part of `args`.
async fn bench(load: &str, args: Args<'_>) -> Ran {
    let load: Vec<&str> = load.split_whitespace().collect();
    run(&[&["bench"], args, &load].concat(), &[]).await
}

#[tokio::test]
async fn the_load_generator_finds_a_healthy_server_right() {
    let (_engine, serve) = served(&[], &["--api-key", "k"]).await;
    let url = format!("http://{}", serve.address);
    let pid = serve.process.pid().to_string();
    for (api, stream) in
        [("generate", false), ("generate", true), ("completions", false), ("completions", true)]
    {
        let delivery: &[&str] = if stream { &["--stream"] } else { &[] };
        let target = [&url, "--api", api, "--api-key", "k", "--pid", &pid];
        let ran = bench(LOAD, &[&target[..], delivery].concat()).await;
        assert_eq!(ran.code, Some(0), "{api}, stream {stream}: {ran:?}");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
        assert!(report["requests_per_s"].as_f64().unwrap() > 0.0, "{report}");
        assert!(report["cpu_ms_per_request"].as_f64().is_some(), "{report}");
        assert_eq!(report["e2e_ms"]["count"], json!(60), "{report}");
        assert_eq!(report["ttft_ms"].is_object(), stream, "{report}");
    }
    let open =
        "--rate 200 --duration 300ms --warmup 2 --prompt-tokens 16 --output-tokens 3 --allow-late --json";
    let ran = bench(open, &[&url, "--api-key", "k"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[tokio::test]
async fn the_load_generator_fails_with_the_server() {
    let (engine, serve) = served(&[], &["--api-key", "k"]).await;
    let url = format!("http://{}", serve.address);
    let failure = json!({ "kind": "error", "count": 1 });
    let midway = json!({ "kind": "error", "at_token": 2, "count": 1 });
    let cases: [(_, Args<'_>, _); 4] = [
        (None, &[&url], "status_401"),
        (Some(failure), &[&url, "--api-key", "k"], "status_502"),
        (Some(midway), &[&url, "--api-key", "k", "--stream"], "error_reply"),
        (None, &["http://127.0.0.1:1", "--failures-max", "3"], ""),
    ];
    for (fault, args, told) in cases {
        if let Some(fault) = fault {
            engine.fault(&fault).await;
        }
        let ran = bench(LOAD, args).await;
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stdout.contains(told), "{args:?}: {ran:?}");
    }
}

/// Runs a command that ends with `code` and with these last words.
async fn ends(args: Args<'_>, env: Env<'_>, code: i32, last: &str) {
    let ran = run(args, env).await;
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert!(ran.stderr.ends_with(last), "{ran:?}");
}

#[tokio::test]
async fn a_command_ends_with_what_it_found_or_with_the_help_that_tells_more() {
    ends(&["serve"], &[], 2, "GRPC_PORT\ntito: see tito serve --help\n").await;
    ends(&["serve", "--port", "x"], &[], 2, "not a whole number\ntito: see tito serve --help\n").await;
    ends(&["workers", "--url", "ftp://x"], &[], 2, "\ntito: see tito workers --help\n").await;
    let reset = ["workers", "reset", "--all", "--url", "ftp://x"];
    ends(&reset, &[], 2, "\ntito: see tito workers reset --help\n").await;
    ends(&["check", "--engine", "vllm://a:1"], &[], 0, "tito: nothing is wrong\n").await;
    ends(&["check"], &[], 2, "tito: 1 problem\ntito: see tito check --help\n").await;
    let two = ["check", "--port", "x", "--max-queued", "y"];
    ends(&two, &[], 2, "tito: 2 problems\ntito: see tito check --help\n").await;
}

#[tokio::test]
async fn a_check_names_variables_that_no_command_reads_and_never_their_values() {
    let ok = ["check", "--engine", "vllm://127.0.0.1:1"];
    let env = [
        ("TITO_MAX_QUEUE", "s3cret"),
        ("TITO_CONTROL_URL", "x"),
        ("TITO_PORT", "1"),
        ("TITO_BENCH_API_KEY", "k"),
        ("MAX_QUEUED", "1"),
    ];
    let told = "tito: TITO_MAX_QUEUE in the environment is ignored: no command knows it\n";
    let ran = run(&ok, &env).await;
    assert_eq!(ran.stderr, format!("{told}tito: nothing is wrong\n"), "{ran:?}");
    ends(&["check"], &env, 2, "tito: 1 problem\ntito: see tito check --help\n").await;
    let ran = run(&[&ok[..], &["--port", "x"]].concat(), &env).await;
    assert!(ran.stderr.starts_with(told), "{ran:?}");
}

#[tokio::test]
async fn every_command_explains_itself() {
    let commands = ["serve", "check", "mock", "demo", "bench", "workers"];
    let ran = run(&["--help"], &[]).await;
    assert_eq!(ran.code, Some(0));
    for command in commands {
        assert!(ran.stdout.contains(command), "{}", ran.stdout);
        let help = run(&[command, "--help"], &[]).await;
        assert_eq!(help.code, Some(0), "{command}");
        assert!(help.stdout.contains("Usage: tito"), "{}", help.stdout);
    }
    let version = run(&["--version"], &[]).await;
    assert_eq!(version.code, Some(0));
    assert_eq!(version.stdout.trim(), concat!("tito ", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(&[], &[]).await.code, Some(2));
    assert_eq!(run(&["dance"], &[]).await.code, Some(2));
}
