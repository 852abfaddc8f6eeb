use anyhow::anyhow;

use super::*;

/// Plays all stages, of which clippy fails and fuzz is skipped.
fn with_a_failure(keep_going: bool) -> Vec<Done> {
    play(&Stage::ALL, keep_going, |stage| {
        Ok(match stage {
            Stage::Clippy => Ending::Failed(String::new()),
            Stage::Fuzz => Ending::Skipped("no fuzz".to_owned()),
            Stage::Fmt | Stage::Tidy | Stage::Test | Stage::Doc | Stage::DocsCheck => {
                Ending::Passed("1 passed".to_owned())
            }
        })
    })
}

fn reached(done: &[Done]) -> Vec<&str> {
    done.iter().map(|(stage, _, _)| stage.name()).collect()
}

#[test]
fn the_first_failure_ends_the_run_unless_told_to_keep_going() {
    assert_eq!(reached(&with_a_failure(false)), ["fmt", "tidy", "clippy"]);
    let all = ["fmt", "tidy", "clippy", "test", "doc", "docs-check", "fuzz"];
    assert_eq!(reached(&with_a_failure(true)), all);
    assert!(!holds(&with_a_failure(true)));
}

#[test]
fn a_skipped_stage_is_no_failure_and_an_error_is_one() {
    assert!(holds(&play(&[Stage::Fuzz], false, |_| Ok(Ending::Skipped(String::new())))));
    assert!(!holds(&play(&[Stage::Fuzz], false, |_| Err(anyhow!("no cargo")))));
}

#[test]
fn the_report_has_a_row_for_every_stage() {
    let mut done = with_a_failure(false);
    for (_, _, took) in &mut done {
        *took = Duration::from_millis(1250);
    }
    let expected = "\
| stage  | result      | seconds | detail   |
| ------ | ----------- | ------- | -------- |
| fmt    | passed      | 1.2     | 1 passed |
| clippy | FAILED      | 1.2     |          |
| test   | not reached |         |          |
verify: FAILED
";
    assert_eq!(report(&[Stage::Fmt, Stage::Clippy, Stage::Test], &done), expected);
}

#[test]
fn closing_lines_are_summed() {
    let mut sum = Tally::default();
    for line in [
        "running 3 tests",
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        "test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s",
        "test result: nonsense",
    ] {
        sum.add(line);
    }
    assert_eq!(sum, Tally { passed: 5, failed: 4, ignored: 1 });
}

#[test]
fn a_test_run_without_a_passed_test_is_broken() {
    let run = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script]);
        test(command).unwrap()
    };
    let line = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
    assert_eq!(run(line), Ending::Passed("2 passed, 0 failed, 0 ignored".to_owned()));
    assert!(matches!(run(&format!("{line}; exit 1")), Ending::Failed(_)));
    assert!(matches!(run("true"), Ending::Failed(_)));
}
