//! Settings from four places, and the commands beside `serve`.

mod commands;

use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Args, Env, Ran, run};

/// Nobody listens there, and `check` does not look.
const ENGINE: [&str; 2] = ["--engine", "vllm://127.0.0.1:1"];
/// Status of a command line or a file that cannot work.
const USAGE: Option<i32> = Some(2);

/// A configuration file.
fn file(text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("tito.toml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

async fn check(args: &[&str], env: &[(&str, &str)]) -> Ran {
    run(&[&["check", "--json"], args].concat(), env).await
}

/// Value and origin of a setting.
fn setting(ran: &Ran, name: &str) -> (String, String) {
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let rows = shown["settings"].as_array().unwrap();
    let row = rows.iter().find(|row| row["setting"] == name).unwrap_or_else(|| panic!("no {name}: {ran:?}"));
    let text = |key: &str| row[key].as_str().unwrap().to_owned();
    (text("value"), text("origin"))
}

#[tokio::test]
async fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() {
    let (_folder, path) = file("max-queued = 3\n");
    let (config, env, flag) = (["--config", &path], [("TITO_MAX_QUEUED", "2")], ["--max-queued", "1"]);
    let cases: [(Args<'_>, Env<'_>, &str, &str); 6] = [
        (&[], &[], "8192", "default"),
        (&config, &[], "3", "file"),
        (&config, &env, "2", "env"),
        (&[], &env, "2", "env"),
        (&[config, flag].concat(), &env, "1", "flag"),
        (&[config, flag].concat(), &[], "1", "flag"),
    ];
    for (args, env, value, origin) in cases {
        let ran = check(&[&ENGINE[..], args].concat(), env).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(setting(&ran, "max-queued"), (value.to_owned(), origin.to_owned()), "{args:?} {env:?}");
    }
}

#[tokio::test]
async fn every_kind_of_setting_comes_from_every_place() {
    let engines = "vllm://127.0.0.1:1,vllm://192.0.2.1:2";
    let settings = [
        ("engine", engines, "vllm://127.0.0.1:1 vllm://192.0.2.1:2"),
        ("strict", "true", "true"),
        ("host", "::1", "::1"),
        ("queue-timeout", "250ms", "250ms"),
        ("body-limit", "1MiB", "1MiB"),
        ("port", "0", "0"),
        ("api-key", "k1,k2", "*** ***"),
        ("policy", "least-loaded", "least-loaded"),
        ("temperature", "0.5", "0.5"),
        ("affinity", "hard", "hard"),
        ("session-idle", "90s", "90s"),
        ("siblings", "spread", "spread"),
        ("sibling-load", "7", "7"),
        ("target-limit", "3", "3"),
        ("index-limit", "64MiB", "64MiB"),
    ];
    let row = |name: &str, given: &str| match given.split_once(',') {
        Some((one, other)) => format!("{name} = [\"{one}\", \"{other}\"]\n"),
        None if ["strict", "port"].contains(&name) => format!("{name} = {given}\n"),
        None => format!("{name} = \"{given}\"\n"),
    };
    let (_folder, path) = file(&settings.map(|(name, given, _)| row(name, given)).concat());
    let named = |name: &str| format!("TITO_{}", name.to_uppercase().replace('-', "_"));
    let variables = settings.map(|(name, given, _)| (named(name), given));
    let env: Vec<(&str, &str)> = variables.iter().map(|(name, given)| (name.as_str(), *given)).collect();
    let flag = |(name, given, _): (&str, &str, &str)| match name {
        "strict" => "--strict".to_owned(),
        _ => format!("--{name}={given}"),
    };
    let flags = settings.map(flag);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    for (ran, origin) in [
        (check(&["--config", &path], &[]).await, "file"),
        (check(&[], &[("TITO_CONFIG", &path)]).await, "file"),
        (check(&[], &env).await, "env"),
        (check(&flags, &[]).await, "flag"),
    ] {
        assert_eq!(ran.code, Some(0), "{ran:?}");
        for (name, _, shown) in settings {
            assert_eq!(setting(&ran, name), (shown.to_owned(), origin.to_owned()), "{name}");
        }
    }
}

#[tokio::test]
async fn a_bad_file_ends_the_start_with_every_mistake_in_it() {
    let cases: [(&str, &[&str]); 3] = [
        ("max-queue = 1\nnonsense = 2\n", &["max-queue", "nonsense"]),
        ("port = 70000\nstrict = \"yes\"\n", &["port", "70000", "strict"]),
        ("queue-timeout = \"5 parsecs\"\n", &["queue-timeout"]),
    ];
    for (text, marks) in cases {
        let (_folder, path) = file(text);
        for command in ["check", "serve"] {
            let ran = run(&[&[command, "--config", &path], &ENGINE[..]].concat(), &[]).await;
            assert_eq!(ran.code, USAGE, "{text}: {ran:?}");
            assert!(ran.stderr.contains("tito.toml"), "{text}: {ran:?}");
            assert!(marks.iter().all(|mark| ran.stderr.contains(mark)), "{text}: {ran:?}");
            assert!(!ran.stdout.contains("listens"), "{ran:?}");
        }
    }
    let (_folder, path) = file("\u{0}\u{1}");
    let ran = check(&[&ENGINE[..], &["--config", &path]].concat(), &[]).await;
    assert_eq!(ran.code, USAGE, "{ran:?}");
    assert!(ran.stderr.contains("not TOML"), "{ran:?}");
    let (folder, _) = file("");
    let missing = folder.path().join("missing.toml");
    let ran = check(&[&ENGINE[..], &["--config", missing.to_str().unwrap()]].concat(), &[]).await;
    assert_eq!(ran.code, USAGE, "{ran:?}");
    assert!(ran.stderr.contains("missing.toml"), "{ran:?}");
    let (_folder, large) = file(&"#\n".repeat(600_000));
    let ran = check(&[&ENGINE[..], &["--config", &large]].concat(), &[]).await;
    assert_eq!(ran.code, USAGE, "{ran:?}");
}

#[tokio::test]
async fn bad_flags_end_the_start_before_a_socket_is_bound() {
    let cases: [&[&str]; 5] = [
        &[],
        &["--engine", "http://127.0.0.1:1"],
        &["--engine", "vllm://127.0.0.1:1", "--max-in-flight", "0"],
        &["--engine", "vllm://127.0.0.1:1", "--no-such-flag"],
        &["--engine", "vllm://127.0.0.1:1", "--log-level", "loud=very="],
    ];
    for case in cases {
        let ran = run(&[&["serve", "--port", "0"], case].concat(), &[]).await;
        assert_eq!(ran.code, USAGE, "{case:?}: {ran:?}");
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{case:?}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{case:?}: {ran:?}");
    }
    let ran =
        run(&["serve", "--port", "0"], &[("TITO_MAX_IN_FLIGHT", "many"), ("TITO_ENGINE", ENGINE[1])]).await;
    assert_eq!(ran.code, USAGE, "{ran:?}");
}

#[tokio::test]
async fn every_mistake_is_reported_at_once() {
    let args = [
        "--engine",
        "vllm://a:x",
        "--engine",
        "ftp://b:1",
        "--api-key-file",
        "no-such-file",
        "--api-key",
        "",
    ];
    let ran = check(&args, &[]).await;
    assert_eq!(ran.code, USAGE, "{ran:?}");
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(shown["problems"].as_array().unwrap().len(), 4, "{ran:?}");
    for mark in ["vllm://a:x", "ftp://b:1", "no-such-file", "--api-key"] {
        assert!(ran.stderr.contains(mark), "{mark}: {ran:?}");
    }
}

#[tokio::test]
async fn every_bad_value_is_told_at_once_with_the_place_it_came_from() {
    let (_folder, path) = file("policy = \"best\"\nbody-limit = \"1MB\"\nnonsense = 1\n");
    let flags = ["--max-in-flight", "0", "--port", "70000", "--queue-timeout", "1s", "--config", &path];
    let env = [("TITO_MAX_QUEUED", "many"), ("TITO_STRICT", "perhaps"), ("TITO_QUEUE_TIMEOUT", "5 parsecs")];
    for command in ["serve", "check"] {
        let ran = run(&[&[command], &ENGINE[..], &flags].concat(), &env).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (USAGE, ""), "{ran:?}");
        let places = |line: &&str| !line.ends_with(" --help") && !line.ends_with(" problems");
        let told: Vec<&str> = ran.stderr.lines().filter(places).collect();
        let expected = [
            ("nonsense", path.as_str()),
            ("--max-in-flight", "command line"),
            ("--max-queued", "environment"),
            ("--port", "command line"),
            ("--body-limit", &path),
            ("--policy", &path),
            ("--strict", "environment"),
        ];
        assert_eq!(told.len(), expected.len(), "{ran:?}");
        for (setting, place) in expected {
            let start = format!("tito: {place}: ");
            let found = told.iter().any(|line| line.starts_with(&start) && line.contains(setting));
            assert!(found, "{setting} of {place}: {ran:?}");
        }
    }
}

#[tokio::test]
async fn settings_of_one_pair_may_come_from_two_places() {
    let (folder, config) = file("tls-cert = \"no-such-cert\"\n");
    let key = folder.path().join("no-such-key");
    let args = ["--config", &config, "--tls-key", key.to_str().unwrap()];
    let ran = check(&[&ENGINE[..], &args].concat(), &[]).await;
    assert_eq!(setting(&ran, "tls-cert").1, "file");
    assert_eq!(setting(&ran, "tls-key").1, "flag");
    assert!(ran.stderr.contains("no-such-cert") && ran.stderr.contains("no-such-key"), "{ran:?}");
    assert!(!ran.stderr.contains("needs"), "{ran:?}");
}

#[tokio::test]
async fn no_output_holds_a_key() {
    let (_folder, path) = file("api-key = [\"s3cret-file\"]\n");
    let cases: [(Args<'_>, Env<'_>); 3] = [
        (&["--api-key", "s3cret-flag"], &[]),
        (&[], &[("TITO_API_KEY", "s3cret-env,s3cret-env2")]),
        (&["--config", &path], &[]),
    ];
    for (args, env) in cases {
        for form in [&[][..], &["--json"][..]] {
            for engine in [&ENGINE[..], &[][..]] {
                let ran = run(&[&["check"], form, engine, args].concat(), env).await;
                assert!(ran.stdout.contains("***"), "{ran:?}");
                assert!(!ran.stdout.contains("s3cret") && !ran.stderr.contains("s3cret"), "{ran:?}");
            }
        }
    }
}

#[tokio::test]
async fn no_mistake_shows_a_key() {
    let (_folder, unquoted) = file("strict = true\napi-key = s3cret\n");
    let cases: [Args<'_>; 4] = [
        &["--config", &unquoted],
        &["--api-key", "--s3cret", "--port", "70000"],
        &["--control-key", "-s3cret", "--port", "70000"],
        &["--engine", "vllm://me:s3cret@a:1?metrics=http://h/?token=s3cret"],
    ];
    for args in cases {
        for form in [&[][..], &["--json"][..]] {
            let ran = run(&[&["check"], form, args].concat(), &[]).await;
            assert_eq!(ran.code, USAGE, "{ran:?}");
            assert!(!ran.stdout.contains("s3cret") && !ran.stderr.contains("s3cret"), "{ran:?}");
        }
    }
}

#[tokio::test]
async fn check_tells_programs_what_cannot_even_be_read() {
    let ran = run(&["check", "--json", "--max-queued", "-1", "--port", "70000"], &[]).await;
    let told: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(told["problems"].as_array().map(Vec::len), Some(2), "{told}");
}

#[tokio::test]
async fn a_value_wider_than_any_screen_is_shown_all_the_same() {
    let engines: Vec<String> = (0..3000).map(|at| format!("\"vllm://host-{at:04}:50051\"")).collect();
    let (_folder, path) = file(&format!("engine = [{}]\n", engines.join(", ")));
    let ran = run(&["check", "--config", &path], &[]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("vllm://host-2999:50051"));
}

#[tokio::test]
async fn a_taken_port_is_said_to_be_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port().to_string();
    let mock = ["mock", "--grpc-port", "0", "--port", &port];
    let serve = [&["serve", "--port", &port], &ENGINE[..]].concat();
    for args in [&serve[..], &["demo", "--port", &port], &mock] {
        let ran = run(args, &[]).await;
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let told = ran.stderr.contains(&address.to_string()) && ran.stderr.contains("in use");
        assert!(told && !ran.stderr.contains("panicked"), "{args:?}: {ran:?}");
        assert!(!ran.stdout.contains("listens") && !ran.stdout.contains("gRPC on"), "{ran:?}");
    }
}
