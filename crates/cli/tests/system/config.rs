//! Settings from four places, and the commands beside `serve`.

mod commands;

use std::net::TcpListener;

use serde_json::Value;

use crate::harness::{Args, Env, Files, Ran, run};

/// Nobody listens there, and `check` does not look.
const ENGINE: [&str; 2] = ["--engine", "vllm://127.0.0.1:1"];
/// Status of a command line or a file that cannot work.
const USAGE: Option<i32> = Some(2);

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
    let files = Files::new();
    let path = files.write("tito.toml", "max-queued = 3\n");
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
    let files = Files::new();
    let path = files.write("tito.toml", &settings.map(|(name, given, _)| row(name, given)).concat());
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

/// The command refused to begin, and says why with these words.
#[track_caller]
fn assert_refused(ran: &Ran, marks: &[&str]) {
    assert_eq!(ran.code, USAGE, "{ran:?}");
    assert!(marks.iter().all(|mark| ran.stderr.contains(mark)), "{marks:?}: {ran:?}");
    assert!(!ran.stderr.is_empty() && !ran.stderr.contains("panicked"), "{ran:?}");
    assert!(!ran.stdout.contains("listens"), "{ran:?}");
}

#[tokio::test]
async fn a_bad_file_ends_the_start_with_every_mistake_in_it() {
    let files = Files::new();
    let text = "max-queue = 1\nport = 70000\nstrict = \"yes\"\nqueue-timeout = \"5 parsecs\"\n";
    let path = files.write("tito.toml", text);
    let large = files.write("large.toml", &"#\n".repeat(600_000));
    for command in ["check", "serve"] {
        let ran = async |path: &str| run(&[&[command, "--config", path], &ENGINE[..]].concat(), &[]).await;
        assert_refused(&ran(&path).await, &["tito.toml", "max-queue", "70000", "strict", "queue-timeout"]);
        assert_refused(&ran(&large).await, &["is larger than"]);
    }
}

#[tokio::test]
async fn what_cannot_work_ends_the_start_before_a_socket_is_bound() {
    let files = Files::new();
    let (empty, missing) = (files.write("empty", ""), files.path("missing"));
    let missing = missing.to_str().unwrap();
    let cases: [&[&str]; 9] = [
        &["--engine", "http://127.0.0.1:1"],
        &["--engine", "vllms://127.0.0.1:1"],
        &["--max-in-flight", "0"],
        &["--no-such-flag"],
        &["--log-level", "loud=very="],
        &["--api-key", ""],
        &["--api-key-file", &empty],
        &["--tls-cert", missing, "--tls-key", missing],
        &["--engine-cert", &empty],
    ];
    for case in cases {
        assert_refused(&run(&[&["serve", "--port", "0"], &ENGINE[..], case].concat(), &[]).await, &[]);
    }
    let env = [("TITO_MAX_IN_FLIGHT", "many"), ("TITO_ENGINE", ENGINE[1])];
    assert_refused(&run(&["serve", "--port", "0"], &env).await, &["many"]);
}

#[tokio::test]
async fn every_bad_value_is_told_at_once_with_the_place_it_came_from() {
    let files = Files::new();
    let path = files.write("tito.toml", "policy = \"best\"\nbody-limit = \"1MB\"\nnonsense = 1\n");
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
    let files = Files::new();
    let config = files.write("tito.toml", "tls-cert = \"no-such-cert\"\n");
    let args = ["--config", &config, "--tls-key", "no-such-key"];
    let ran = check(&[&ENGINE[..], &args].concat(), &[]).await;
    assert_eq!((setting(&ran, "tls-cert").1, setting(&ran, "tls-key").1), ("file".into(), "flag".into()));
    assert!(ran.stderr.contains("no-such-cert") && ran.stderr.contains("no-such-key"), "{ran:?}");
    assert!(!ran.stderr.contains("needs"), "{ran:?}");
}

#[tokio::test]
async fn nothing_that_is_printed_holds_a_key() {
    let files = Files::new();
    let path = files.write("tito.toml", "api-key = [\"s3cret-file\"]\n");
    let unquoted = files.write("unquoted.toml", "strict = true\napi-key = s3cret\n");
    // With the variables, and whether the settings can be shown at all.
    let cases: [(Args<'_>, Env<'_>, bool); 7] = [
        (&["--api-key", "s3cret-flag"], &[], true),
        (&[], &[("TITO_API_KEY", "s3cret-env,s3cret-env2")], true),
        (&["--config", &path], &[], true),
        (&["--config", &unquoted], &[], false),
        (&["--api-key", "--s3cret", "--port", "70000"], &[], false),
        (&["--control-key", "-s3cret", "--port", "70000"], &[], false),
        (&["--engine", "vllm://me:s3cret@a:1?metrics=http://h/?token=s3cret"], &[], false),
    ];
    for (args, env, shown) in cases {
        for form in [&[][..], &["--json"][..]] {
            for engine in [&ENGINE[..], &[][..]] {
                let ran = run(&[&["check"], form, engine, args].concat(), env).await;
                assert!(if shown { ran.stdout.contains("***") } else { ran.code == USAGE }, "{ran:?}");
                assert!(!ran.stdout.contains("s3cret") && !ran.stderr.contains("s3cret"), "{ran:?}");
            }
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
    let files = Files::new();
    let path = files.write("tito.toml", &format!("engine = [{}]\n", engines.join(", ")));
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
