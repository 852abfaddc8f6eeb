use super::RateVerdict;
use crate::config::Api;
use crate::goodput::Goodput;
use crate::report::Report;
use crate::steady::SteadyWindow;
use crate::testing::{Answer, TWO_TOKENS, config, run_in_memory};

/// A run at 100 requests per second for ten seconds, 25 of them in flight, of which so many stayed behind.
async fn report(behind: u64) -> Report {
    let mut report = run_in_memory(&config(Api::Generate, false), |_| Answer::json(TWO_TOKENS)).await;
    report.requests.succeeded = 1000;
    report.report.late_allowed = false;
    let e2e_ms = report.e2e_ms.map(|e2e| crate::percentiles::Percentiles { mean: 250.0, ..e2e });
    report.steady = Some(SteadyWindow {
        from_s: 0.0,
        to_s: 10.0,
        due: 1000,
        succeeded: 1000 - behind,
        requests_per_s: 100.0,
        output_tokens_per_s: 200.0,
        ttft_ms: None,
        itl_ms: None,
        tpot_ms: None,
        e2e_ms,
    });
    report
}

#[tokio::test(start_paused = true)]
async fn replies_may_stay_behind_by_a_share_and_by_chance() {
    // 5 % of 1,000, and three times the square root of 25.
    assert_eq!(RateVerdict::of(&report(65).await, 0.99), RateVerdict::KeptUp);
    assert_eq!(RateVerdict::of(&report(66).await, 0.99), RateVerdict::FellBehind);
    let never_steady = Report { steady: None, ..report(0).await };
    assert_eq!(RateVerdict::of(&never_steady, 0.99), RateVerdict::FellBehind);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_rate_has_an_order() {
    let mut report = report(66).await;
    report.requests.failed = 1;
    assert_eq!(RateVerdict::of(&report, 0.99), RateVerdict::Failed);
    let slo = "e2e:1s".parse().unwrap();
    let goodput = |share| Some(Goodput { slo, good: 0, share, requests_per_s: 0.0 });
    report.goodput = goodput(0.98);
    assert_eq!(RateVerdict::of(&report, 0.99), RateVerdict::MissedSlo);
    report.goodput = goodput(0.99);
    assert_eq!(
        RateVerdict::of(&report, 0.99),
        RateVerdict::FellBehind,
        "a failed request is one that was not good"
    );
    report.late = vec!["late".to_owned()];
    assert_eq!(RateVerdict::of(&report, 0.99), RateVerdict::GeneratorLate);
    report.report.late_allowed = true;
    assert_eq!(RateVerdict::of(&report, 0.99), RateVerdict::FellBehind);
    report.requests.warmup_failed = 1;
    assert_eq!(RateVerdict::of(&report, 0.99), RateVerdict::WarmupFailed);
}
