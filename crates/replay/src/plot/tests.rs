use super::*;
use crate::report::quantiles;
use crate::{Balance, BestHitRates, Spread, TurnShares};

fn policy(name: &'static str, hit_rate: f64) -> PolicyReport {
    let mut first_tokens: Vec<f64> = (1..=1000).map(|at| f64::from(at) / 100.0).collect();
    PolicyReport {
        policy: name,
        completed: 1000,
        rejected: 0,
        hit_rate: Some(hit_rate),
        known_hit_rate: Some(hit_rate),
        best: BestHitRates { one_cache: Some(0.4), fleet: Some(0.35) },
        wait: Spread::of(&mut [0.0]),
        queued: 0,
        ttft: Spread::of(&mut first_tokens),
        ttft_quantiles: quantiles(&mut first_tokens),
        e2e: Spread::of(&mut [0.0]),
        balance: Balance::of(vec![3, 1], &[1, 1]),
        preemptions: 0,
        lost_batches: 0,
        seconds: Some(10.0),
    }
}

/// No request was served.
fn nothing() -> PolicyReport {
    PolicyReport {
        completed: 0,
        hit_rate: None,
        known_hit_rate: None,
        best: BestHitRates { one_cache: None, fleet: None },
        wait: None,
        ttft: None,
        ttft_quantiles: Vec::new(),
        e2e: None,
        balance: Balance::of(vec![0, 0], &[0, 0]),
        seconds: None,
        ..policy("kv", 0.0)
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
        one_cache_hit_rate: Some(0.4),
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
    let unserved = Report { one_cache_hit_rate: None, ..report(vec![nothing()]) };
    let picture = svg(std::slice::from_ref(&unserved));
    assert!(well_formed(&picture) && !picture.contains("NaN") && !picture.contains("inf"));
    // The dashed line that is left is that of an even balance.
    assert_eq!((picture.matches(">–<").count(), picture.matches("stroke-dasharray").count()), (2, 1));
    assert!(html(&[unserved]).contains(&"<td>–".repeat(9)));
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
