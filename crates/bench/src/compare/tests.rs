use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::{Comparison, MinMax, compare, order, unchecked, unequal};
use crate::config::{Api, Load, PrefixConfig, PromptSource, Stop, Target, Trust};
use crate::input::{DataSet, LineOrder, Matched};
use crate::report::Report;
use crate::run::Error;
use crate::testing::{Answer, OverTcp, TWO_TOKENS, config, random, run_in_memory, silent};
use crate::verdict::RunVerdict;

async fn a_report(name: &str, requests_per_s: f64) -> Report {
    let mut report = run_in_memory(&config(Api::Generate, false), |_| Answer::json(TWO_TOKENS)).await;
    name.clone_into(&mut report.target.name);
    report.requests_per_s = requests_per_s;
    report
}

#[tokio::test(start_paused = true)]
async fn ratios_are_taken_within_a_round_so_that_drift_cancels() {
    // The machine gets ten times slower from round to round; b is always twice as fast as a.
    let mut runs = Vec::new();
    for speed in [100.0, 10.0, 1.0] {
        runs.push(a_report("a", speed).await);
        runs.push(a_report("b", 2.0 * speed).await);
    }
    let comparison = Comparison::new(3, 2, runs, Vec::new());
    let exact = |value| MinMax { min: value, max: value };
    for (target, name, median, ratio, spread) in [
        (0, "a", 10.0, 1.0, MinMax { min: 1.0, max: 100.0 }),
        (1, "b", 20.0, 2.0, MinMax { min: 2.0, max: 200.0 }),
    ] {
        let summary = &comparison.targets[target];
        let (key, found) =
            ("requests_per_s", (summary.median["requests_per_s"], summary.ratio["requests_per_s"]));
        assert_eq!((summary.name.as_str(), found), (name, (median, ratio)));
        assert_eq!((summary.spread[key], summary.ratio_spread[key]), (spread, exact(ratio)));
    }
    assert!(
        !comparison.targets[0].median.contains_key("ttft_ms.p50"),
        "what was not measured is not compared"
    );
}

/// A run of `requests` of which those from number `slow_from` on time out.
async fn a_run(name: &str, requests: u64, slow_from: u64) -> Report {
    let mut config = config(Api::Generate, false);
    config.load = Load::Closed { concurrency: 1, stop: Stop::Requests(requests) };
    config.target.name = name.to_owned();
    run_in_memory(&config, move |asked| {
        let wait =
            if asked.number < slow_from { Duration::from_millis(100) } else { Duration::from_secs(31) };
        Answer { not_before: Some(Instant::now() + wait), ..Answer::json(TWO_TOKENS) }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn rounds_in_which_requests_timed_out_count_with_what_they_took_at_least() {
    // Each figure is of three rounds; in so many of them half of b's requests time out.
    let key = "e2e_ms.p99";
    for (sick, exact, spread) in [(0, true, true), (1, true, false), (2, false, false), (3, false, false)] {
        let mut runs = Vec::new();
        for round in 0..3 {
            runs.push(a_run("a", 4, 4).await);
            runs.push(a_run("b", 4, if round < sick { 2 } else { 4 }).await);
        }
        let b = &Comparison::new(3, 2, runs, Vec::new()).targets[1];
        let least = if exact { 99.0 } else { 29_000.0 };
        assert!((least..1.1 * least).contains(&b.median[key]), "{sick}: {b:?}");
        assert_eq!(b.lower_bounds.contains(key), !exact, "{sick}: {b:?}");
        assert_eq!(b.ratio.contains_key(key), exact, "{sick}: {b:?}");
        assert_eq!(b.spread.contains_key(key), spread, "{sick}: {b:?}");
        assert_eq!(b.ratio_spread.contains_key(key), spread, "{sick}: {b:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_that_some_rounds_lack_has_no_median() {
    let mut runs = Vec::new();
    for cost in [Some(1.0), None, Some(3.0)] {
        runs.push(a_report("a", 1.0).await);
        runs.push(Report { cpu_ms_per_request: cost, ..a_report("b", 1.0).await });
    }
    let b = &Comparison::new(3, 2, runs, Vec::new()).targets[1];
    assert_eq!(b.incomplete, [("cpu_ms_per_request", 2)].into());
    assert!(!b.median.contains_key("cpu_ms_per_request") && b.median.contains_key("requests_per_s"), "{b:?}");
}

/// What one run asked, warm-up first.
struct Asked {
    target: &'static str,
    prompt: Vec<u64>,
}

#[tokio::test]
async fn targets_take_turns_and_no_run_asks_for_the_prompts_of_another() {
    let (seen, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let start = |target: &'static str| {
        let seen = seen.clone();
        OverTcp::start(move |asked| {
            if let Some(ids) = asked.body["token_ids"].as_array() {
                let prompt = ids.iter().map(|id| id.as_u64().unwrap()).collect();
                seen.send(Asked { target, prompt }).unwrap();
            }
            Answer::json(TWO_TOKENS)
        })
    };
    let (a, b) = (start("a").await, start("b").await);
    let mut config = config(Api::Generate, false);
    config.load = Load::Closed { concurrency: 1, stop: Stop::Requests(2) };
    config.warmup_requests = 1;
    config.workload.prompts = random("20-200", PrefixConfig { groups: 1, tokens: 8, siblings: 1 });
    config.target.url.clone_from(&a.url);
    let other = Target { name: "other".to_owned(), url: b.url.clone(), ..config.target.clone() };
    let comparison = compare(&config, &[other], 3, &silent()).await.unwrap();

    assert!(comparison.ok() && comparison.warnings.is_empty(), "{:?}", comparison.warnings);
    let names: Vec<_> = comparison.runs.iter().map(|run| run.target.name.as_str()).collect();
    assert_eq!(names, ["it", "other", "it", "other", "it", "other"]);
    let requests: Vec<_> = std::iter::from_fn(|| asked.try_recv().ok()).collect();
    let runs: Vec<_> = requests.chunks(3).collect();
    let turns: Vec<_> = runs.iter().map(|run| run[0].target).collect();
    assert_eq!(turns, ["a", "b", "b", "a", "a", "b"], "each round begins with another target");

    // Of every run, the prefix of its warm-up and the prefix of its measured requests.
    let mut prefixes = BTreeSet::new();
    for run in &runs {
        let [warmup, one, two] = run else { panic!("a run is three requests") };
        assert_eq!(one.prompt[..8], two.prompt[..8], "siblings share");
        prefixes.extend([&warmup.prompt[..8], &one.prompt[..8]]);
    }
    assert_eq!(prefixes.len(), 2 * runs.len());
    let lengths = |run: &[Asked]| run.iter().map(|asked| asked.prompt.len()).collect::<Vec<_>>();
    for round in runs.chunks(2) {
        assert_eq!(lengths(round[0]), lengths(round[1]), "targets of a round do the same work");
    }
    assert_ne!(lengths(runs[0]), lengths(runs[2]));
}

#[test]
fn every_target_begins_a_round_in_turn() {
    let orders: Vec<Vec<_>> = (0..4).map(|round| order(round, 3).collect()).collect();
    assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
}

#[tokio::test]
async fn a_bad_target_ends_a_comparison_before_the_first_run() {
    let config = config(Api::Generate, false);
    let bad = Target { url: "x".to_owned(), ..config.target.clone() };
    assert!(matches!(compare(&config, &[bad], 1, &silent()).await, Err(Error::Config(_))));
    assert!(matches!(compare(&config, &[], 0, &silent()).await, Err(Error::Config(_))));
}

#[tokio::test]
async fn a_process_that_vanishes_leaves_the_rounds_that_were_measured() {
    let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let steady = OverTcp::start(|_| Answer::json(TWO_TOKENS)).await;
    let state = Mutex::new((0, child));
    let other = OverTcp::start(move |asked| {
        let (runs, child) = &mut *state.lock().unwrap();
        *runs += u32::from(!asked.body.is_null()); // the list of engines is asked for without a body
        if *runs == 2 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        Answer::json(TWO_TOKENS)
    });
    let other = other.await;
    let mut config = config(Api::Generate, false);
    config.target.url.clone_from(&steady.url);
    let (name, url) = ("other".to_owned(), other.url.clone());
    let target = Target { name, url, pids: vec![pid], ..config.target.clone() };
    let comparison = compare(&config, std::slice::from_ref(&target), 4, &silent()).await.unwrap();
    assert_eq!((comparison.rounds, comparison.runs.len()), (2, 4), "{comparison}");
    let verdicts: Vec<_> = comparison.runs.iter().map(|run| run.verdict).collect();
    assert_eq!(verdicts, [RunVerdict::Ok, RunVerdict::Ok, RunVerdict::Ok, RunVerdict::Failed]);
    let reason = format!("ended in round 3 of 4: other: cannot measure a process: process {pid} is gone");
    assert_eq!((comparison.verdict, comparison.stopped.as_ref()), (RunVerdict::Failed, Some(&reason)));
    assert!(comparison.to_string().contains(&format!("\nFAILED       {reason}\n")), "{comparison}");

    // Nothing is measured of a process that is not there to begin with.
    let ended = compare(&config, &[target], 4, &silent()).await;
    assert!(matches!(ended, Err(Error::Process(_))));
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_fails_the_comparison() {
    let good = a_report("a", 1.0).await;
    let bad = run_in_memory(&config(Api::Generate, false), |_| Answer::json("{}")).await;
    assert!(!Comparison::new(1, 2, vec![good, bad], Vec::new()).ok());
}

#[tokio::test]
async fn runs_over_a_data_set_send_different_lines_of_equal_lengths_or_say_that_they_do_not() {
    let (seen, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let server = OverTcp::start(move |asked| {
        seen.send(asked.body["token_ids"][0].as_u64()).unwrap();
        Answer::json(TWO_TOKENS)
    });
    let server = server.await;
    let file = tempfile::NamedTempFile::new().unwrap();
    // Every other prompt is longer; nine do not come out even.
    let row = |id: u32| format!("{{\"token_ids\":{:?}}}\n", vec![id; 1 + id as usize % 2]);
    let rows: Vec<_> = (0..9).map(row).collect();
    std::fs::write(file.path(), rows.concat()).unwrap();
    let set = Arc::new(DataSet::read(file.path()).unwrap());

    let of_three = unequal(&Matched::new(&set, 3)).unwrap();
    assert!(of_three.starts_with("1 of 3 prompts per target differ in length"), "{of_three}");
    assert_eq!(unequal(&Matched::new(&set, 2)), None);

    let mut config = config(Api::Generate, false);
    config.target.url.clone_from(&server.url);
    config.workload.prompts = PromptSource::DataSet { set, order: LineOrder::FILE };
    let other = Target { name: "other".to_owned(), ..config.target.clone() };
    let mut sent = async |requests| {
        config.load = Load::Closed { concurrency: 1, stop: Stop::Requests(requests) };
        let comparison = compare(&config, std::slice::from_ref(&other), 2, &silent()).await.unwrap();
        let ids: Vec<_> = std::iter::from_fn(|| asked.try_recv().ok()).flatten().collect();
        (ids, comparison.warnings)
    };
    let (ids, warnings) = sent(2).await;
    assert_eq!(ids, [0, 1, 2, 3, 6, 7, 4, 5], "the second round begins with the other target");
    assert_eq!(warnings.len(), 1, "one server behind both: {warnings:?}");
    let (_, warnings) = sent(3).await;
    assert!(
        warnings[1].starts_with("4 prompts per target are 2 for each run, and one sent 3: "),
        "{warnings:?}"
    );
}

#[test]
fn a_comparison_names_the_targets_whose_certificates_are_not_checked() {
    let target = |name: &str, scheme: &str, trust| {
        let url = format!("{scheme}://it.test");
        Target { name: name.to_owned(), url, trust, ..config(Api::Generate, false).target }
    };
    let (plain, public) =
        (target("plain", "http", Trust::Anyone), target("public", "https", Trust::PublicRoots));
    let (a, b) = (target("a", "https", Trust::Anyone), target("b", "HTTPS", Trust::Anyone));
    assert_eq!(unchecked(&[&plain, &public]), None);
    let warning = unchecked(&[&plain, &a, &public, &b]).unwrap();
    assert!(warning.starts_with("a, b: certificates were not checked"), "{warning}");
}
