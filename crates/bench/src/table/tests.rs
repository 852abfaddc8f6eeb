use std::time::Duration;

use expect_test::expect;

use crate::compare::{Comparison, MinMax, TargetSummary};
use crate::config::{Api, ArrivalProcess, Load, PrefixConfig};
use crate::percentiles::{LowerBounds, Percentiles};
use crate::report::{Clock, Failures, GeneratorUse, ProcessUse, Report};
use crate::testing::{Answer, TWO_TOKENS, config, random, run_in_memory};
use crate::verdict::RunVerdict;

/// A report whose every number is known.
async fn report() -> Report {
    let mut report = run_in_memory(&config(Api::Generate, false), |_| Answer::json(TWO_TOKENS)).await;
    let times = Percentiles {
        count: 1,
        censored: 0,
        mean: 1.5,
        p50: 1.0,
        p90: 2.0,
        p95: 2.5,
        p99: 3.0,
        p99_9: 12.25,
        max: 1234.5,
        lower_bounds: LowerBounds::default(),
    };
    report.elapsed_s = 2.5;
    report.requests_per_s = 1234.56;
    report.prompt_tokens_per_s = 4938.0;
    report.output_tokens_per_s = 2469.0;
    report.e2e_ms = Some(times);
    report.processes = vec![ProcessUse {
        pid: 42,
        name: "tito".to_owned(),
        cpu_ms: 100.0,
        cpu_ms_per_request: 0.0712,
        rss_peak_bytes: 30 << 20,
        rss_bytes: 29 << 20,
    }];
    report.generator = Some(GeneratorUse { cpu_ms_per_request: 0.05, cores_busy: 0.62 });
    report
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_reads_like_this() {
    expect![[r"
        it  http://it.test/base/ (generate)
          unary, 4 prompt tokens, 2 output tokens, seed 7
          closed loop, 1 in flight, 1 requests
        requests     1 succeeded, 0 failed, 0 shed, 2.500 s
        throughput   1234.6 requests/s, 2469 output tokens/s, 4938 prompt tokens/s
        ms                 mean        p50        p90        p95        p99      p99.9        max
        E2E               1.500      1.000      2.000      2.500      3.000     12.250   1234.500
        read lag          0.000      0.000      0.000      0.000      0.000      0.000      0.000
                     from sending (closed loop: service time)
        process      42 (tito): 0.0712 CPU ms/request, RSS 29.0 MiB, peak 30.0 MiB
        generator    0.0500 CPU ms/request, 0.62 cores busy, 1 connections
    "]]
    .assert_eq(&report().await.to_string());
}

#[tokio::test(start_paused = true)]
async fn an_open_loop_with_trouble_reads_like_this() {
    let mut report = report().await;
    report.workload.stream = true;
    report.workload.ignore_eos = false;
    report.workload.prompts = random("128-512", PrefixConfig { groups: 8, tokens: 64, siblings: 16 });
    report.load = Load::Open {
        rate_per_s: 1500.0,
        arrivals: ArrivalProcess::Poisson,
        duration: Duration::from_secs(10),
        in_flight_max: 512,
    };
    report.clock = Clock::IntendedTime;
    report.ttft_ms = report.e2e_ms;
    report.e2e_ms = report.e2e_ms.map(|e2e| Percentiles {
        censored: 2,
        lower_bounds: LowerBounds::of(&["p99_9", "max"]),
        ..e2e
    });
    report.send_lag_ms = report.ttft_ms;
    report.requests.shed = 3;
    report.requests.failed = 2;
    report.requests.warmup_succeeded = 100;
    report.failures.insert("status_503".to_owned(), Failures { count: 2, example: "busy".to_owned() });
    report.process_errors.push("process 43 is gone".to_owned());
    report.gave_up = true;
    report.target.certificates_checked = Some(false);
    expect![[r"
        it  http://it.test/base/ (generate)
          streaming, 128-512 prompt tokens, up to 2 output tokens, seed 7, 8 groups × 16 siblings sharing 64
          open loop, 1500 requests/s (Poisson), 10 s, at most 512 in flight
        WARNING      certificates were not checked, so anyone may have answered for the server
        requests     1 succeeded, 2 failed, 3 shed, 2.500 s, after 100 for warm-up
        throughput   1234.6 requests/s, 2469 output tokens/s, 4938 prompt tokens/s
        ms                 mean        p50        p90        p95        p99      p99.9        max
        TTFT              1.500      1.000      2.000      2.500      3.000     12.250   1234.500
        E2E               1.500      1.000      2.000      2.500      3.000    >12.250  >1234.500
        send lag          1.500      1.000      2.000      2.500      3.000     12.250   1234.500
        read lag          0.000      0.000      0.000      0.000      0.000      0.000      0.000
                     from when the request was due (open loop)
                     > at least: a failed request took at least the time after which it failed
        process      42 (tito): 0.0712 CPU ms/request, RSS 29.0 MiB, peak 30.0 MiB
        generator    0.0500 CPU ms/request, 0.62 cores busy, 1 connections
        FAILED       2 × status_503: busy
        FAILED       3 arrivals shed: too many requests in flight
        FAILED       process 43 is gone
        FAILED       gave up after 1000 failed requests
    "]]
    .assert_eq(&report.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_comparison_reads_like_this() {
    let summary = |name: &str, rate: f64, ratio: f64, cost: Option<f64>| TargetSummary {
        name: name.to_owned(),
        median: cost
            .into_iter()
            .map(|cost| ("cpu_ms_per_request", cost))
            .chain([("requests_per_s", rate)])
            .collect(),
        spread: [("requests_per_s", MinMax { min: 0.9 * rate, max: 1.0 * rate })].into(),
        ratio: [("requests_per_s", ratio)].into(),
        ratio_spread: [("requests_per_s", MinMax { min: ratio, max: ratio })].into(),
        ..TargetSummary::default()
    };
    let mut targets = vec![summary("tito", 9000.0, 1.0, Some(0.07)), summary("peer", 1200.5, 0.133, None)];
    targets[0].median.insert("e2e_ms.p99", 30_000.0);
    targets[0].lower_bounds.insert("e2e_ms.p99");
    targets[1].incomplete.insert("rss_peak_bytes", 4);
    let (runs, warnings) = (vec![report().await], vec!["a and b share".to_owned()]);
    let verdict = RunVerdict::Ok;
    let comparison = Comparison { verdict, rounds: 5, stopped: None, targets, runs, warnings };
    expect![[r"
        unary, 4 prompt tokens, 2 output tokens, seed 7
        closed loop, 1 in flight, 1 requests
        WARNING      a and b share
        medians of 5 rounds ± half their range; × is against tito, per round
                                                            tito                              peer
        cpu_ms_per_request               0.070                                                   –
        e2e_ms.p99                  >30000.000                                                   –
        requests_per_s                9000.000   ±5.0 %   ×1.000        1200.500   ±5.0 %   ×0.133
        rss_peak_bytes                                         –                     4 of 5 rounds
                              > at least: in too many rounds failed requests hide the value
    "]]
    .assert_eq(&comparison.to_string());
}

/// The report of a run that was late, or of which a request failed.
async fn bad(verdict: RunVerdict) -> Report {
    let mut report = report().await;
    report.verdict = verdict;
    report.report.late_allowed = verdict == RunVerdict::Late;
    match verdict {
        RunVerdict::Ok => (),
        RunVerdict::Late | RunVerdict::Invalid => report.late.push("requests were sent late".to_owned()),
        RunVerdict::Failed => {
            report
                .failures
                .insert("status_503".to_owned(), Failures { count: 2, example: "busy".to_owned() });
        }
    }
    report
}

#[tokio::test(start_paused = true)]
async fn runs_that_failed_and_runs_that_were_late_are_counted_apart_above_the_medians() {
    use RunVerdict::{Failed, Invalid, Late, Ok};
    for (verdicts, lines, verdict) in [
        ([Ok, Ok, Ok, Ok], "", Ok),
        ([Ok, Failed, Ok, Failed], "FAILED       2 of 2 runs of it: 2 × status_503: busy\n", Failed),
        (
            [Invalid, Ok, Failed, Late],
            "INVALID      1 of 2 runs of it: requests were sent late\n\
             FAILED       1 of 2 runs of it: 2 × status_503: busy\n\
             LATE         1 of 2 runs of it: requests were sent late\n",
            Invalid,
        ),
    ] {
        let mut runs = Vec::new();
        for verdict in verdicts {
            runs.push(bad(verdict).await);
        }
        let comparison = Comparison::new(2, 2, runs, Vec::new());
        assert_eq!(comparison.verdict, verdict);
        let text = comparison.to_string();
        let (above, below) = text.split_once("medians of ").unwrap();
        let (_, counted) = above.split_once("requests\n").unwrap();
        assert_eq!(counted, lines, "{text}");
        let bad = [Failed, Invalid].contains(&verdict);
        assert_eq!(
            below.matches("\nrequests ").count(),
            usize::from(bad),
            "the first run of a target alone: {text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_says_how_many_events_were_read_together_and_warns_where_most_were() {
    for (share, p50, noted) in [(0.0, 5.0, false), (0.25, 5.0, false), (0.845, 0.0, true), (0.5, 0.0, true)] {
        let mut report = report().await;
        report.events_coalesced = Some(share);
        report.itl_event_ms = report.e2e_ms.map(|times| Percentiles { p50, ..times });
        let text = report.to_string();
        let line = format!("\ncoalesced    {:.1} % of the events", share * 100.0);
        assert!(text.contains(&line) && text.contains("\nNOTE ") == noted, "{text}");
    }
}
