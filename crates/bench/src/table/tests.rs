use std::time::Duration;

use expect_test::expect;

use crate::compare::{Comparison, MinMax, TargetSummary};
use crate::config::{Api, ArrivalProcess, Load, PrefixConfig};
use crate::percentiles::{LowerBounds, Percentiles};
use crate::report::{Clock, Failures, GeneratorUse, ProcessUse, Report};
use crate::testing::{Answer, TWO_TOKENS, config, random, run_in_memory};

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
    };
    let targets = vec![summary("tito", 9000.0, 1.0, Some(0.07)), summary("peer", 1200.5, 0.133, None)];
    let (runs, warnings) = (vec![report().await], vec!["a and b share".to_owned()]);
    let comparison = Comparison { rounds: 5, targets, runs, warnings };
    expect![[r"
        unary, 4 prompt tokens, 2 output tokens, seed 7
        closed loop, 1 in flight, 1 requests
        WARNING      a and b share
        medians of 5 rounds ± half their range; × is against tito, per round
                                                            tito                              peer
        cpu_ms_per_request               0.070                                                   –
        requests_per_s                9000.000   ±5.0 %   ×1.000        1200.500   ±5.0 %   ×0.133
    "]]
    .assert_eq(&comparison.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_target_whose_runs_all_failed_shows_the_first_of_them_alone() {
    let mut failed = report().await;
    failed.requests.failed = 1;
    let runs = vec![report().await, failed.clone(), report().await, failed];
    let lines = Comparison::new(2, 2, runs, Vec::new()).to_string();
    let shown: Vec<&str> = lines.lines().filter(|line| line.starts_with("FAILED ")).collect();
    assert_eq!(shown, ["FAILED       2 of 2 runs of it, first:"]);
    assert_eq!(lines.matches("\nrequests ").count(), 1, "{lines}");
}
