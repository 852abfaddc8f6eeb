use super::*;
use crate::{Balance, BestHitRates, Spread, TurnShares};

fn policy(name: &'static str, hit_rate: f64) -> PolicyReport {
    let (ttft, ttft_quantiles) = Spread::of((1..=1000).map(|at| f64::from(at) / 100.0).collect());
    PolicyReport {
        policy: name,
        completed: 1000,
        rejected: 0,
        hit_rate,
        known_hit_rate: hit_rate,
        best: BestHitRates { one_cache: 0.4, fleet: 0.35 },
        wait: Spread::default(),
        queued: 0,
        ttft,
        ttft_quantiles,
        e2e: Spread::default(),
        balance: Balance::of(vec![3, 1], &[1, 1]),
        preemptions: 0,
        lost_batches: 0,
        seconds: 10.0,
    }
}

fn report(policies: Vec<PolicyReport>) -> Report {
    Report {
        workers: 2,
        requests: 1000,
        prompt_tokens: 1,
        output_tokens: 1,
        seconds: 10.0,
        turns: TurnShares { next: 0.0, named: 0.0, ambiguous: 0.0 },
        one_cache_hit_rate: 0.4,
        policies,
    }
}

/// Every tag that opens closes, in order.
fn well_formed(svg: &str) -> bool {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/']).find(|part| !part.is_empty());
        if tag.starts_with('/') {
            if open.pop() != name {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.extend(name);
        }
    }
    open.is_empty()
}

#[test]
fn the_picture_shows_every_policy_with_its_numbers() {
    let picture = svg(&[report(vec![policy("kv", 0.349), policy("random", 0.05)])]);
    assert!(well_formed(&picture));
    for shown in ["kv", "random", "34.9 %", "5.0 %", "1.50", "1000 requests in 10 s on 2 workers"] {
        assert!(picture.contains(&format!(">{shown}<")), "{shown}");
    }
    assert_eq!(picture.matches("<polyline").count(), 2);
    assert!(picture.matches("stroke-dasharray").count() == 2 && !picture.contains("NaN"));
}

#[test]
fn a_report_without_a_policy_or_a_single_token_is_still_a_picture() {
    let empty = svg(&[report(Vec::new())]);
    assert!(well_formed(&empty) && !empty.contains("NaN") && !empty.contains("inf"));
    let nothing = PolicyReport { ttft_quantiles: Spread::of(Vec::new()).1, ..policy("kv", 0.0) };
    let nothing = svg(&[report(vec![nothing])]);
    assert!(well_formed(&nothing) && !nothing.contains("NaN") && !nothing.contains("inf"));
}

#[test]
fn several_reports_stand_below_each_other() {
    let one = report(vec![policy("kv", 0.349)]);
    let picture = svg(&[one.clone(), Report { workers: 3, ..one }]);
    assert!(well_formed(&picture) && picture.contains("height=\"1520\""));
    assert!(picture.contains("on 2 workers<") && picture.contains("on 3 workers<"));
}

#[test]
fn the_page_holds_a_picture_per_report_and_a_row_per_policy() {
    let one = report(vec![policy("kv", 0.349), policy("random", 0.05)]);
    let page = html(&[one.clone(), one]);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</table></html>\n"));
    assert_eq!((page.matches("<svg").count(), page.matches("<tr><td>").count()), (2, 4));
}
