use crate::compare::Comparison;
use crate::config::{Api, ArrivalProcess, BenchConfig, Load};
use crate::report::Report;
use crate::sweep::{RateVerdict, Sweep, SweepConfig, SweepStep};
use crate::testing::{Answer, STREAM, config, run_in_memory};
use crate::verdict::RunVerdict;
use std::time::Duration;

use super::{comparison_html, number, run_html, sweep_html};

/// Streams at 20 per second for three seconds; every tenth fails.
async fn report(name: &str) -> Report {
    let load = Load::Open {
        rate_per_s: 20.0,
        arrivals: ArrivalProcess::Constant,
        duration: Duration::from_secs(3),
        in_flight_max: 1000,
    };
    let mut config = BenchConfig { load, ..config(Api::Generate, true) };
    config.target.name = name.to_owned();
    run_in_memory(&config, |asked| {
        let gap = Duration::from_millis(20);
        let status = if asked.number % 10 == 3 { 503 } else { 200 };
        Answer { status, gap, ..Answer::events(&STREAM) }
    })
    .await
}

/// Every element of the picture that opens closes, no coordinate is broken, and nothing is loaded.
#[track_caller]
fn check(page: &str, curves: usize, names: &[&str]) {
    let mut open = Vec::new();
    let svg = &page[page.find("<svg").unwrap()..page.find("</svg>").unwrap() + 6];
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "{svg}"),
            None if tag.ends_with('/') => (),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    assert_eq!(svg.matches("<polyline").count(), curves, "{svg}");
    assert!(!page.contains("<script") && !page.contains("src="), "{page}");
    for name in names {
        assert!(page.contains(name), "{name}: {page}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_drawn_over_time_and_as_distributions_above_its_report() {
    let report = report("<it> & co").await;
    let page = run_html(&report);
    // The failures hide each p99 over time.
    check(&page, 3 + 2 + 3 + 1 + 1, &["&lt;it&gt; &amp; co", "TTFT", "Requests in flight", "status_503"]);
    let curves = [&report.curves.ttft, &report.curves.itl, &report.curves.e2e].map(Vec::len);
    assert_eq!(curves, [91, 101, 91], "failures hide the last tenth");
}

#[tokio::test(start_paused = true)]
async fn targets_are_drawn_beside_each_other() {
    let mut runs = Vec::new();
    for name in ["a", "b", "a", "b"] {
        runs.push(report(name).await);
    }
    check(&comparison_html(&Comparison::new(2, 2, runs, Vec::new())), 3 * 2, &["2 rounds: a, b", "by round"]);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_is_drawn_by_rate() {
    let mut steps = Vec::new();
    for rate_per_s in [1.0, 4.0, 2.0] {
        let verdict = if rate_per_s > 3.0 { RateVerdict::FellBehind } else { RateVerdict::KeptUp };
        steps.push(SweepStep { rate_per_s, verdict, report: report("it").await });
    }
    let config = SweepConfig { steps_max: 3, good_share_min: 0.99, precision: 0.05 };
    let limit = Some(RateVerdict::FellBehind);
    let verdict = RunVerdict::Ok;
    let sweep = Sweep { verdict, config, knee_per_s: Some(2.0), too_high_per_s: Some(4.0), limit, steps };
    // There are no limits for goodput, and the failures hide each p99.
    check(&sweep_html(&sweep), 2 + 2, &["knee at 2 requests/s", "fell behind"]);
}

#[test]
fn numbers_of_an_axis_are_short() {
    let table = [(0.0, "0"), (0.1 + 0.2, "0.3"), (250.0, "250"), (20_000.0, "20k"), (0.001, "0.001")];
    for (value, shown) in table {
        assert_eq!(number(value), shown);
    }
}
