use tito_engine::{TokenStream, lazy, merge};
use tito_types::WorkerId;

use super::*;

fn at(worker: &str, rank: Option<u32>) -> Placement {
    let worker = WorkerId::new(worker);
    Placement { worker, rank, prompt_tokens: 100, overlap_tokens: 64, predicted_tokens: 96, rule: "policy" }
}

fn silent() -> TokenStream {
    TokenStream::new(1, futures_util::stream::pending())
}

#[track_caller]
fn check(places: &[Option<Placement>], expected: Option<&str>) {
    let parts = places.iter().cloned().map(|place| match place {
        Some(place) => silent().placed(place),
        None => lazy(1, std::future::pending()),
    });
    let value = header(merge(parts.collect()).places());
    assert_eq!(value.as_ref().map(|value| value.to_str().unwrap()), expected);
}

#[test]
fn a_place_is_spelled_in_one_line() {
    check(&[], None);
    check(&[None, None], None);
    let a = at("10.0.0.5:50051", Some(3));
    check(&[Some(a.clone())], Some("worker=10.0.0.5:50051; rank=3; overlap=64; predicted=96; rule=policy"));
    check(&[Some(at("b", None))], Some("worker=b; overlap=64; predicted=96; rule=policy"));
    let second = Some("waiting, worker=b; rank=0; overlap=64; predicted=96; rule=policy");
    check(&[None, Some(at("b", Some(0)))], second);
    let odd = Some("worker=a?b?c?d??; overlap=64; predicted=96; rule=policy");
    check(&[Some(at("a b;c,d\u{e9}\n", None))], odd);
}

#[test]
fn the_header_is_bounded_in_prompts() {
    let of = |prompts: usize| {
        let parts = (0..prompts).map(|_| silent().placed(at("w", None)));
        let value = header(merge(parts.collect()).places()).unwrap();
        let value = value.to_str().unwrap().to_owned();
        (value.matches("worker=w").count(), value.ends_with(", ..."))
    };
    assert_eq!(of(PROMPTS_MAX), (PROMPTS_MAX, false));
    assert_eq!(of(PROMPTS_MAX + 1), (PROMPTS_MAX, true));
    assert_eq!(of(1_000), (PROMPTS_MAX, true));
}

#[test]
fn asking_is_one_or_zero() {
    for (values, expected) in [
        (&[][..], Some(false)),
        (&["0"], Some(false)),
        (&["1"], Some(true)),
        (&["1", "1"], Some(true)),
        (&["1", "0"], None),
        (&["true"], None),
        (&[""], None),
    ] {
        let headers =
            values.iter().map(|value| (HeaderName::from_static(X_TITO_EXPLAIN), value.parse().unwrap()));
        assert_eq!(asked(&headers.collect()).ok(), expected, "{values:?}");
    }
}
