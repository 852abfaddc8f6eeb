use std::time::Duration;

use crate::config::{Api, PrefixConfig, SessionConfig, Span, TimeSpan, WorkloadConfig};
use crate::testing::{self, ids};
use crate::workload::Workload;

fn workload(turns: Span, prompt_seed: u64) -> Workload {
    let second = Duration::from_secs(1);
    let session = SessionConfig {
        turns,
        turn_tokens: "3-9".parse().unwrap(),
        think_time: TimeSpan { first: second, last: 2 * second },
    };
    let config = WorkloadConfig {
        prompts: testing::random("5-8", PrefixConfig::NONE),
        session: Some(session),
        output_tokens: "1-100".parse().unwrap(),
        prompt_seed,
        ..testing::config(Api::Generate, false).workload
    };
    Workload::try_new(&testing::config(Api::Generate, false).target, &config, None).unwrap()
}

#[test]
fn each_turn_asks_with_the_last_prompt_its_answer_and_new_ids() {
    let workload = workload(Span { first: 4, last: 4 }, 1);
    let mut session = workload.session(0).unwrap();
    let mut before = ids(&session.body());
    assert_eq!(before, ids(&workload.body(0)), "the first turn is the request of the same number");
    for turn in 1..4_u32 {
        let answer = [u32::MAX, turn];
        let think_time = session.advance(&answer).expect("there are turns left");
        assert!((1.0..=2.0).contains(&think_time.as_secs_f64()));
        let now = ids(&session.body());
        let said = before.len() + answer.len();
        assert_eq!(now[..before.len()], before);
        assert_eq!(now[before.len()..said], answer.map(u64::from));
        assert!((3..=9).contains(&(now.len() - said)), "{now:?}");
        assert!(now[said..].iter().all(|id| (10..=999).contains(id)));
        before = now;
    }
    assert_eq!(session.advance(&[1]), None);
}

/// The prompts and budgets of a session whose every answer is one id, and its pauses.
fn course(workload: &Workload, number: u64) -> (Vec<Vec<u64>>, Vec<u32>, Vec<Duration>) {
    let mut session = workload.session(number).unwrap();
    let (mut prompts, mut budgets, mut pauses) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let body = session.body();
        prompts.push(ids(&body));
        budgets.push(body.output_tokens);
        let Some(pause) = session.advance(&[1]) else { return (prompts, budgets, pauses) };
        pauses.push(pause);
    }
}

#[test]
fn sessions_follow_from_the_seeds_and_differ_in_everything() {
    let span = Span { first: 1, last: 6 };
    let (one, other_ids) = (workload(span, 1), workload(span, 2));
    let mut lengths = Vec::new();
    for number in 0..60 {
        let (prompts, budgets, pauses) = course(&one, number);
        assert_eq!(course(&one, number), (prompts.clone(), budgets.clone(), pauses.clone()));
        let other = course(&other_ids, number);
        let shape = |prompts: &[Vec<u64>]| prompts.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!((shape(&prompts), budgets, pauses), (shape(&other.0), other.1, other.2));
        assert_ne!(prompts.last(), other.0.last(), "the prompt seed decides the ids of all turns");
        lengths.push(prompts.len());
    }
    for turns in 1..=6 {
        assert!(lengths.contains(&turns), "no session of {turns} turns: {lengths:?}");
    }
}
