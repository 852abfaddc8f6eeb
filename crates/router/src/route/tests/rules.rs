//! An operator is told which rule sends a request where it goes.

use super::*;

/// A dry run names a target and a rule, and the request is then sent just so. What was sent stays in flight.
async fn check(bench: &Bench, asked: &GenerateRequest, expected: (&str, &'static str)) -> TokenStream {
    let report = bench.route.explain(asked);
    let (worker, _) = report.chosen.expect("a target fits");
    assert_eq!((worker.as_str(), report.rule), (expected.0, Some(expected.1)), "the dry run");
    let sent = bench.route.generate(asked.clone()).await.expect("accepted");
    let placement = sent.placement().expect("it was placed");
    assert_eq!((placement.worker.as_str(), placement.rule), expected, "the request");
    sent
}

#[tokio::test]
async fn what_decided_is_told_and_a_dry_run_says_the_same() {
    let bench = Bench::new(&[hanging(), hanging()]);
    let asked = |prompt: &[u32]| GenerateRequest { prompt: prompt.into(), ..request(Delivery::Deltas) };
    let first = GenerateRequest { session: Some("s".into()), ..asked(&[1; 9]) };
    let _first = check(&bench, &first, ("a", "policy")).await;
    let _sibling = check(&bench, &asked(&[1; 9]), ("a", "siblings")).await;
    let next = GenerateRequest { session: Some("s".into()), ..asked(&[1; 12]) };
    let _next = check(&bench, &next, ("a", "session")).await;
    let _other = check(&bench, &asked(&[2; 9]), ("b", "policy")).await;
    let pinned = GenerateRequest { worker: Some(WorkerId::new("b")), ..next };
    let _pinned = check(&bench, &pinned, ("b", "pin")).await;
}

#[test]
fn no_rule_decides_for_what_goes_nowhere() {
    let report = Bench::new(&[]).route.explain(&request(Delivery::Deltas));
    assert_eq!((report.chosen, report.rule), (None, None));
    assert_eq!(report.reason.as_deref(), Some("no target serves the request"));
}
