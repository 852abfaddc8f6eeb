use clap::Parser;

use super::*;
use crate::stages::Stage as _;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn args(words: &[&str]) -> Args {
    Cli::parse_from([&["nightly"], words].concat()).args
}

/// Performs something of a stage in an empty checkout, with this much of its budget left.
fn night<T>(stage: Stage, args: &Args, left: Duration, perform: impl FnOnce(&Night<'_>) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap().to_owned();
    let workspace = Workspace { target: format!("{root}/target"), root, crates: Vec::new() };
    let night = Night { workspace: &workspace, args, xtask: "bash", stage, deadline: Instant::now() + left };
    perform(&night)
}

#[test]
fn the_budgets_add_up_to_two_hours() {
    assert_eq!(Stage::ALL.iter().map(|stage| stage.budget()).sum::<Duration>(), Duration::from_hours(2));
}

#[test]
fn stages_have_the_names_that_the_command_line_takes() {
    use clap::ValueEnum as _;
    for stage in Stage::ALL {
        assert_eq!(Stage::from_str(stage.name(), false), Ok(stage));
    }
    assert_eq!(Stage::ALL.len(), Stage::value_variants().len());
}

#[test]
fn a_missing_kit_or_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let kit = folder.path().join("engines");
    std::fs::create_dir(&kit).unwrap();
    let args = args(&["--kit", kit.to_str().unwrap()]);
    let missing = |stage| night(stage, &args, Duration::ZERO, |night: &Night<'_>| Night::missing(night));
    let engines = [Stage::ConformanceLight, Stage::ConformanceDense, Stage::ConformanceDenseTight];
    for stage in engines.into_iter().chain([Stage::ConformanceDensePriority, Stage::Clients]) {
        assert!(missing(stage).unwrap().contains("holds no engine.sh"), "{stage:?}");
    }
    std::fs::write(kit.join("engine.sh"), "").unwrap();
    assert_eq!(missing(Stage::ConformanceDense), None);
    assert!(missing(Stage::Clients).unwrap().contains("there is no folder"));
    assert!(missing(Stage::Fuzz).unwrap().contains("there is no fuzz/Cargo.toml"));
}

/// How a stage ends whose command is this bash script.
fn xtask(script: &str, left: Duration) -> Ending {
    night(Stage::Drift, &args(&[]), left, |night| night.xtask(&["-c", script])).unwrap()
}

#[test]
fn a_command_that_skipped_a_part_is_no_pass_and_one_that_failed_says_its_status() {
    let long = Duration::from_mins(5);
    assert_eq!(xtask("exit 0", long), Ending::Passed(String::new()));
    assert!(matches!(xtask("exit 3", long), Ending::Skipped(_)));
    for code in ["1", "2", "101"] {
        assert_eq!(
            xtask(&format!("exit {code}"), long),
            Ending::Failed(format!("ended with exit status: {code}"))
        );
    }
}

#[test]
fn a_stage_that_runs_over_its_budget_has_failed() {
    let ending = xtask("tail -f /dev/null", Duration::from_secs(1));
    assert_eq!(ending, Ending::Failed("stopped at the end of its budget, 15 min".to_owned()));
}
