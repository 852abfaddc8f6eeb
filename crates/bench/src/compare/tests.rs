use std::sync::Arc;

use super::{Comparison, compare, median};
use crate::config::{Api, Load, Stop, Target};
use crate::progress::{Progress, Silent};
use crate::report::Report;
use crate::run::Error;
use crate::testing::{Answer, OverTcp, TWO_TOKENS, config, run_in_memory};

async fn a_report(name: &str, requests_per_s: f64) -> Report {
    let mut report = run_in_memory(&config(Api::Generate, false), |_| Answer::json(TWO_TOKENS)).await;
    name.clone_into(&mut report.target.name);
    report.requests_per_s = requests_per_s;
    report
}

#[test]
fn a_median_is_the_middle_whatever_the_order() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(vec![]), None);
}

#[tokio::test(start_paused = true)]
async fn ratios_are_taken_within_a_round_so_that_drift_cancels() {
    // The machine gets ten times slower from round to round; b is always twice as fast as a.
    let mut runs = Vec::new();
    for speed in [100.0, 10.0, 1.0] {
        runs.push(a_report("a", speed).await);
        runs.push(a_report("b", 2.0 * speed).await);
    }
    let comparison = Comparison::new(3, 2, runs);
    let of = |target: usize| {
        let summary = &comparison.targets[target];
        (summary.name.as_str(), summary.median["requests_per_s"], summary.ratio["requests_per_s"])
    };
    assert_eq!([of(0), of(1)], [("a", 10.0, 1.0), ("b", 20.0, 2.0)]);
    assert!(
        !comparison.targets[0].median.contains_key("ttft_ms.p50"),
        "what was not measured is not compared"
    );
}

fn progress() -> Arc<dyn Progress> {
    Arc::new(Silent)
}

#[tokio::test]
async fn targets_take_turns_and_each_round_asks_anew_but_all_targets_the_same() {
    let (seen, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let start = |name: &'static str| {
        let seen = seen.clone();
        OverTcp::start(move |asked| {
            seen.send((name, asked.body["token_ids"].to_string())).unwrap();
            Answer::json(TWO_TOKENS)
        })
    };
    let (a, b) = (start("a").await, start("b").await);
    let mut config = config(Api::Generate, false);
    config.load = Load::Closed { concurrency: 1, stop: Stop::Requests(1) };
    config.target.url.clone_from(&a.url);
    let other = Target { name: "other".to_owned(), url: b.url.clone(), ..config.target.clone() };
    let comparison = compare(&config, &[other], 2, &progress()).await.unwrap();

    assert!(comparison.ok());
    let names: Vec<_> = comparison.runs.iter().map(|run| run.target.name.as_str()).collect();
    assert_eq!(names, ["it", "other", "it", "other"]);
    let requests: Vec<_> = std::iter::from_fn(|| asked.try_recv().ok()).collect();
    let [(a0, one), (b0, two), (a1, three), (b1, four)] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!([*a0, *b0, *a1, *b1], ["a", "b", "a", "b"]);
    assert!(one == two && three == four && one != three, "{requests:?}");
}

#[tokio::test]
async fn a_bad_target_ends_a_comparison_before_the_first_run() {
    let config = config(Api::Generate, false);
    let bad = Target { url: "x".to_owned(), ..config.target.clone() };
    assert!(matches!(compare(&config, &[bad], 1, &progress()).await, Err(Error::Config(_))));
    assert!(matches!(compare(&config, &[], 0, &progress()).await, Err(Error::Config(_))));
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_fails_the_comparison() {
    let good = a_report("a", 1.0).await;
    let bad = run_in_memory(&config(Api::Generate, false), |_| Answer::json("{}")).await;
    assert!(!Comparison::new(1, 2, vec![good, bad]).ok());
}
