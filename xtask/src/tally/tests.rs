use std::process::Command;

use super::*;
use crate::process;

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
        let mut sum = Tally::default();
        let mut command = Command::new("bash");
        let status = process::watched(command.args(["-c", script]), |line| sum.add(line)).unwrap();
        sum.ending(status)
    };
    let line = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
    assert_eq!(run(line), Ending::Passed("2 passed, 0 failed, 0 ignored".to_owned()));
    assert!(matches!(run(&format!("{line}; exit 1")), Ending::Failed(_)));
    assert!(matches!(run("true"), Ending::Failed(_)));
}
