use anyhow::anyhow;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letter {
    A,
    B,
    C,
}

impl Stage for Letter {
    fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
        }
    }
}

const ALL: [Letter; 3] = [Letter::A, Letter::B, Letter::C];

fn passed() -> Ending {
    Ending::Passed("1 passed".to_owned())
}

fn failed() -> Ending {
    Ending::Failed(String::new())
}

fn skipped() -> Ending {
    Ending::Skipped("no c here".to_owned())
}

/// Plays these stages of three with these endings for a, b and c; each took 1.25 s.
fn play(wanted: &[Letter], keep_going: bool, endings: &[Ending; 3]) -> Run<Letter> {
    let mut run = Run::play("check", &ALL, wanted, keep_going, |stage| Ok(endings[stage as usize].clone()));
    for done in &mut run.done {
        done.took = Duration::from_millis(1250);
    }
    run
}

fn reached(run: &Run<Letter>) -> Vec<&str> {
    run.done.iter().map(|done| done.stage.name()).collect()
}

#[test]
fn the_first_failure_ends_the_run_unless_told_to_keep_going() {
    assert_eq!(reached(&play(&[], false, &[passed(), failed(), passed()])), ["a", "b"]);
    assert_eq!(reached(&play(&[], true, &[passed(), failed(), passed()])), ["a", "b", "c"]);
}

#[test]
fn stages_run_in_the_usual_order_whatever_order_they_are_asked_for_in() {
    assert_eq!(reached(&play(&[Letter::C, Letter::A], false, &[passed(), passed(), passed()])), ["a", "c"]);
}

#[test]
fn a_failure_beats_a_skip_and_a_skip_beats_a_pass() {
    let verdict = |endings| play(&[], true, &endings).verdict();
    assert_eq!(verdict([passed(), passed(), passed()]), Verdict::Holds);
    assert_eq!(verdict([passed(), passed(), skipped()]), Verdict::Partial);
    assert_eq!(verdict([failed(), passed(), skipped()]), Verdict::Broken);
}

#[test]
fn an_error_is_a_failure_that_says_its_causes() {
    let run = Run::play("check", &[Letter::A], &[], false, |_| Err(anyhow!("no cargo").context("start")));
    assert_eq!(run.verdict(), Verdict::Broken);
    assert_eq!(run.closing_line(), "check: FAILED: a (start: no cargo)");
}

#[test]
fn the_report_has_a_row_for_every_stage_that_was_asked_for() {
    let expected = "\
| stage | result      | seconds | detail   |
| ----- | ----------- | ------- | -------- |
| a     | passed      | 1.2     | 1 passed |
| b     | FAILED      | 1.2     |          |
| c     | not reached |         |          |
check: FAILED: b
";
    assert_eq!(play(&[], false, &[passed(), failed(), passed()]).report(), expected);
}

#[track_caller]
fn check_closing(wanted: &[Letter], endings: &[Ending; 3], line: &str) {
    assert_eq!(play(wanted, true, endings).closing_line(), line);
}

#[test]
fn everything_holds_only_when_every_stage_ran_and_passed() {
    check_closing(&[], &[passed(), passed(), passed()], "check: everything holds");
    check_closing(&[], &[passed(), passed(), skipped()], "check: holds, skipped: c (no c here)");
    check_closing(&[], &[failed(), passed(), skipped()], "check: FAILED: a, skipped: c (no c here)");
    check_closing(&[Letter::A], &[passed(), passed(), passed()], "check: holds, stages not asked for: 2");
    let line = "check: holds, skipped: c (no c here), stages not asked for: 1";
    check_closing(&[Letter::A, Letter::C], &[passed(), passed(), skipped()], line);
}

#[test]
fn the_line_of_a_stage_has_its_result_its_time_and_its_detail() {
    let run = play(&[], true, &[passed(), failed(), skipped()]);
    let lines: Vec<String> = run.done.iter().map(Done::line).collect();
    let expected =
        ["a passed after 1.2 s: 1 passed", "b FAILED after 1.2 s", "c skipped after 1.2 s: no c here"];
    assert_eq!(lines, expected);
}
