use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use super::{Body, TAILS_MAX, Workload};
use crate::config::{Api, ConfigError, PrefixConfig, Span, WorkloadConfig};
use crate::testing;

fn workload(config: &WorkloadConfig, requests: Option<u64>) -> Workload {
    Workload::try_new(&testing::config(Api::Generate, false).target, config, requests).unwrap()
}

fn config(prompt_tokens: Span, prefix: PrefixConfig, ids: Span, seed: u64) -> WorkloadConfig {
    let base = testing::config(Api::Generate, false).workload;
    WorkloadConfig { prompt_tokens, ids, prefix, seed, prompt_seed: seed, ..base }
}

fn ids(body: &Body) -> Vec<u64> {
    let json: Value = serde_json::from_slice(&body.json).unwrap();
    let ids: Vec<_> = json["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    assert_eq!(ids.len(), body.prompt_tokens as usize);
    ids
}

const WIDE: Span = Span { first: 10, last: 999 };

#[test]
fn requests_beyond_the_pool_stay_distinct() {
    let config = config(Span { first: 8, last: 8 }, PrefixConfig::NONE, WIDE, 1);
    let workload = workload(&config, None);
    assert_eq!(workload.tails.len() as u64, TAILS_MAX);
    let requests = 5 * TAILS_MAX;
    let distinct: BTreeSet<_> =
        (0..requests).map(|number| ids(&workload.body(number))[..2].to_vec()).collect();
    assert_eq!(distinct.len() as u64, requests);
}

#[test]
fn siblings_come_one_after_another_and_groups_come_round() {
    let prefix = PrefixConfig { groups: 3, tokens: 16, siblings: 2 };
    let workload = workload(&config(Span { first: 20, last: 30 }, prefix, WIDE, 1), None);
    let prefixes: Vec<_> = (0..12).map(|number| ids(&workload.body(number))[..16].to_vec()).collect();
    let (a, b, c) = (&prefixes[0], &prefixes[2], &prefixes[4]);
    assert!(a != b && b != c && a != c);
    let order: Vec<_> = prefixes.iter().collect();
    assert_eq!(order, [a, a, b, b, c, c, a, a, b, b, c, c]);
}

#[test]
fn a_prefix_may_be_the_whole_prompt() {
    let prefix = PrefixConfig { groups: 2, tokens: 5, siblings: 4 };
    let workload = workload(&config(Span { first: 5, last: 6 }, prefix, WIDE, 1), None);
    for number in 0..40 {
        let body = workload.body(number);
        assert!((5..=6).contains(&ids(&body).len()));
    }
}

#[test]
fn a_short_run_prepares_only_what_it_needs() {
    let prefix = PrefixConfig { groups: 1_000_000, tokens: 1000, siblings: 4 };
    let workload = workload(&config(Span { first: 1001, last: 1001 }, prefix, WIDE, 1), Some(9));
    assert_eq!((workload.prefixes.len(), workload.tails.len()), (3, 9));
}

#[test]
fn a_pool_beyond_its_bound_is_refused_and_long_prompts_get_fewer_tails() {
    let target = testing::config(Api::Generate, false).target;
    let prefix = PrefixConfig { groups: 1_000_000, tokens: 1000, siblings: 1 };
    let large = config(Span { first: 1001, last: 1001 }, prefix, WIDE, 1);
    let refused = Workload::try_new(&target, &large, None);
    assert!(matches!(refused, Err(ConfigError::PoolTooLarge { .. })));

    // An id takes up to four bytes with its comma.
    let long = config(Span { first: 1000, last: 1000 }, PrefixConfig::NONE, WIDE, 1);
    let workload = Workload::with_pool(&target, &long, None, 8 * 4000 + 100).unwrap();
    assert_eq!(workload.tails.len(), 8);
    assert_eq!(ids(&workload.body(30)).len(), 1000);
}

fn spans(min: u32, max: u32) -> impl Strategy<Value = Span> {
    (min..max, min..max).prop_map(|(a, b)| Span { first: a.min(b), last: a.max(b) })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bodies_follow_from_the_seed_and_share_exactly_their_prefix(
        prompt in spans(1, 40),
        id_span in spans(0, 100_000),
        prefix in (1_u32..5, 0_u32..40, 1_u32..5),
        seed in any::<u64>(),
        numbers in prop::collection::vec(0_u64..1_000_000, 1..20),
    ) {
        let (groups, tokens, siblings) = prefix;
        let prefix = PrefixConfig { groups, tokens: tokens.min(prompt.first), siblings };
        let config = config(prompt, prefix, id_span, seed);
        let (one, two) = (workload(&config, None), workload(&config, None));
        let group = |number: u64| (number / u64::from(siblings)) % u64::from(groups);
        for number in &numbers {
            let body = one.body(*number);
            prop_assert_eq!(&body, &two.body(*number), "the same seed gives the same body");
            let prompt_ids = ids(&body);
            let lengths = prompt.first as usize..=prompt.last as usize;
            prop_assert!(lengths.contains(&prompt_ids.len()));
            let allowed = u64::from(id_span.first)..=u64::from(id_span.last);
            prop_assert!(prompt_ids.iter().all(|id| allowed.contains(id)));
            for other in &numbers {
                let other_ids = ids(&one.body(*other));
                if group(*number) == group(*other) {
                    let shared = prefix.tokens as usize;
                    prop_assert_eq!(&prompt_ids[..shared], &other_ids[..shared]);
                }
            }
        }
    }

    #[test]
    fn the_seed_decides_lengths_and_the_prompt_seed_decides_ids(seed in any::<u64>()) {
        let prompt = Span { first: 32, last: 1000 };
        let prefix = PrefixConfig { groups: 2, tokens: 16, siblings: 2 };
        let config = config(prompt, prefix, WIDE, seed);
        let prompts = |config| {
            let workload = workload(&config, Some(8));
            (0..8).map(|number| ids(&workload.body(number))).collect::<Vec<_>>()
        };
        let lengths = |prompts: &[Vec<u64>]| prompts.iter().map(Vec::len).collect::<Vec<_>>();
        let one = prompts(config.clone());
        let other_ids = prompts(WorkloadConfig { prompt_seed: seed ^ 1, ..config.clone() });
        prop_assert_eq!(lengths(&one), lengths(&other_ids));
        for (one, other) in one.iter().zip(&other_ids) {
            prop_assert_ne!(&one[..16], &other[..16]);
            prop_assert_ne!(&one[18..], &other[18..]);
        }
        let other_lengths = prompts(WorkloadConfig { seed: seed ^ 1, ..config });
        prop_assert_ne!(lengths(&one), lengths(&other_lengths));
        prop_assert_eq!(&one[0][..16], &other_lengths[0][..16]);
    }
}
