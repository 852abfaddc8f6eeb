use std::io::Read as _;

use super::*;

#[test]
fn a_dropped_leash_tells_the_script_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("stopped");
    let script = "read -r _; echo yes > \"$1\"";
    let leash = Leash::start(script, &[mark.to_str().unwrap()], |_| ()).unwrap();
    assert!(!mark.exists());
    drop(leash);
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "yes\n");
}

#[test]
fn a_script_that_ends_first_is_waited_for_and_gives_its_status() {
    let mut leash = Leash::start("echo hello; exit 7", &[], |command| {
        command.stdout(Stdio::piped());
    })
    .unwrap();
    let mut said = String::new();
    leash.stdout().unwrap().read_to_string(&mut said).unwrap();
    let status = leash.wait(Duration::from_mins(1)).unwrap().expect("it ends at once");
    assert_eq!((said.as_str(), status.code()), ("hello\n", Some(7)));
}

#[test]
fn a_wait_ends_at_its_limit() {
    let never = poll::<()>(Duration::ZERO, || Ok(None)).unwrap();
    assert_eq!(never, None);
}

#[test]
fn watched_lines_arrive_in_order() {
    let mut lines = Vec::new();
    let status = watched(Command::new("bash").args(["-c", "echo one; echo two; exit 3"]), |line| {
        lines.push(line.to_owned());
    })
    .unwrap();
    assert_eq!((lines, status.code()), (vec!["one".to_owned(), "two".to_owned()], Some(3)));
}

#[test]
fn the_output_of_a_failed_command_is_an_error_that_quotes_it() {
    let error = output(".", &["bash", "-c", "echo broken >&2; exit 1"]).unwrap_err();
    assert!(error.to_string().ends_with("failed: broken"), "{error}");
}

/// What a script under a limit printed, and its status when it ended by itself.
fn under_a_limit(script: &str, limit: Duration) -> (Vec<String>, Option<i32>) {
    let mut lines = Vec::new();
    let words = ["bash", "-c", script, "bash"];
    let status = limited(&words, limit, |_| (), |line| lines.push(line.to_owned())).unwrap();
    (lines, status.map(|status| status.code().expect("it was not killed")))
}

#[test]
fn a_command_that_ends_before_its_limit_gives_its_lines_and_its_status() {
    let run = under_a_limit("echo one; echo two; exit 3", Duration::from_mins(5));
    assert_eq!(run, (vec!["one".to_owned(), "two".to_owned()], Some(3)));
}

#[test]
fn a_command_is_killed_at_its_limit_with_everything_it_started() {
    // The lines end only when the background process, which holds the other end of the pipe, is gone, too.
    let run = under_a_limit("tail -f /dev/null & echo started; wait", Duration::from_secs(1));
    assert_eq!(run, (vec!["started".to_owned()], None));
}
