use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A kit whose `engine.sh` is this script; it may write into its own folder.
fn kit(script: &str) -> (tempfile::TempDir, KitArgs) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.sh");
    fs::write(
        &path,
        format!("#!/usr/bin/env bash\ncd \"$(dirname \"$0\")\"\necho \"$*\" >> calls\n{script}\n"),
    )
    .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let args = KitArgs {
        kit: Some(folder.path().to_owned()),
        grpc_port: Some(7),
        http_port: None,
        start_limit_secs: 9,
    };
    (folder, args)
}

fn calls(folder: &tempfile::TempDir) -> Vec<String> {
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    calls.lines().map(|line| line.replace(&std::process::id().to_string(), "PID")).collect()
}

#[test]
fn an_engine_runs_until_it_is_dropped() {
    let (folder, args) =
        kit("[ \"$1\" = down ] || echo \"$2: up after 1 s, pid 5, KIND=$4 HTTP=h:1 GRPC=g:2 \"");
    let engine = args.start("light", "test", &[], &[]).unwrap();
    assert_eq!((engine.grpc.as_str(), engine.http.as_str()), ("g:2", "h:1"));
    let up = "up tito-test-light-PID --kind light --timeout 9 --grpc 7";
    assert_eq!(calls(&folder), [up]);
    drop(engine);
    assert_eq!(calls(&folder), [up, "down tito-test-light-PID"]);
}

#[test]
fn an_engine_that_does_not_start_shows_the_end_of_its_log_and_is_stopped() {
    let log = "for i in $(seq 100); do echo \"log line $i\"; done > engine.log";
    let (folder, args) = kit(&format!("{log}\necho \"error: it ended, see $PWD/engine.log\" >&2; exit 1"));
    let error =
        args.start("dense", "test", &["--kv", "5557"], &["--max-num-seqs", "1"]).err().unwrap().to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].ends_with(" did not start") && lines[1].starts_with("error: it ended"), "{error}");
    assert_eq!((lines[2], lines[3], lines.len()), ("the end of its log:", "log line 61", 43));
    assert_eq!(calls(&folder)[1], "down tito-test-dense-PID");
}

#[test]
fn without_a_log_the_kits_own_words_are_shown() {
    let (_folder, args) = kit("echo 'error: not installed yet: install.sh light' >&2; exit 1");
    let error = args.start("light", "test", &[], &[]).err().unwrap().to_string();
    assert!(error.contains("not installed yet"), "{error}");
}

#[test]
fn a_missing_kit_is_explained() {
    let args = |kit: Option<&Path>| KitArgs {
        kit: kit.map(Path::to_owned),
        grpc_port: None,
        http_port: None,
        start_limit_secs: 1,
    };
    let error = args(None).folder().unwrap_err().to_string();
    assert!(error.contains("TITO_ENGINE_KIT"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let error = args(Some(folder.path())).folder().unwrap_err().to_string();
    assert!(error.contains("holds no engine.sh"), "{error}");
}
