use std::time::Duration;

use super::{SessionConfig, TimeSpan};
use crate::config::Span;
use crate::rng::{Purpose, Rng};

fn session() -> SessionConfig {
    let think_time = TimeSpan { first: Duration::ZERO, last: Duration::ZERO };
    SessionConfig { turns: Span { first: 1, last: 5 }, turn_tokens: "10-20".parse().unwrap(), think_time }
}

#[track_caller]
fn check(change: impl FnOnce(&mut SessionConfig), expected: &[&str]) {
    let mut session = session();
    change(&mut session);
    let found: Vec<_> = session.check(100, 30).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_makes_no_session_is_named() {
    check(|_| (), &[]);
    for turns in [Span { first: 0, last: 5 }, Span { first: 3, last: 2 }, Span { first: 1, last: 100_001 }] {
        let message = format!("turns is {turns}, must be a number or a range from 1 to 100000");
        check(|session| session.turns = turns, &[&message]);
    }
    let zero = "turn_tokens is 0, must be 1 to 10000000";
    check(|session| session.turn_tokens = "0-5".parse().unwrap(), &[zero]);
    let reversed = TimeSpan { first: Duration::from_secs(2), last: Duration::from_secs(1) };
    check(|session| session.think_time = reversed, &["think_time ends before it begins"]);
}

#[test]
fn a_session_may_grow_up_to_the_longest_prompt() {
    // 100 tokens, then four times 2,499,975: ten million in all.
    check(|session| session.turn_tokens = "2499945".parse().unwrap(), &[]);
    let message =
        "a session may grow to 10000004 tokens, must be 10000000 at most: fewer turns, or shorter ones";
    check(|session| session.turn_tokens = "2499946".parse().unwrap(), &[message]);
}

#[test]
fn times_are_drawn_from_their_span() {
    let (first, last) = (Duration::from_millis(5), Duration::from_millis(6));
    let mut rng = Rng::new(1, Purpose::Session, 0);
    let mut drawn: Vec<_> = (0..1000).map(|_| TimeSpan { first, last }.draw(&mut rng)).collect();
    drawn.sort_unstable();
    assert!(drawn[0] >= first && drawn[999] <= last);
    assert!(drawn[0] < Duration::from_micros(5010) && drawn[999] > Duration::from_micros(5990));
    assert_eq!(TimeSpan { first, last: first }.draw(&mut rng), first);
    assert_eq!(TimeSpan { first, last }.to_string(), "0.005 to 0.006 s");
}
