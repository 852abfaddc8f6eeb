use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::random::TAILS_MAX;
use super::{Prompts, Workload};
use crate::config::{Api, ConfigError, Lengths, PrefixConfig, PromptSource, Span, WorkloadConfig};
use crate::input::{DataSet, Matched, Trace};
use crate::testing::{self, ids};

fn workload(config: &WorkloadConfig, requests: Option<u64>) -> Workload {
    Workload::try_new(&testing::config(Api::Generate, false).target, config, requests).unwrap()
}

fn config(prompt_tokens: &str, prefix: PrefixConfig, ids: Span, seed: u64) -> WorkloadConfig {
    let base = testing::config(Api::Generate, false).workload;
    WorkloadConfig { prompts: testing::random(prompt_tokens, prefix), ids, seed, prompt_seed: seed, ..base }
}

/// How many prefixes and tails are held ready.
fn held(workload: &Workload) -> (usize, usize) {
    let Prompts::Random(random) = &workload.prompts else { panic!("{workload:?}") };
    (random.prefixes.len(), random.tails.len())
}

const WIDE: Span = Span { first: 10, last: 999 };

#[test]
fn requests_beyond_the_pool_stay_distinct() {
    let config = config("8", PrefixConfig::NONE, WIDE, 1);
    let workload = workload(&config, None);
    assert_eq!(held(&workload).1 as u64, TAILS_MAX);
    let requests = 5 * TAILS_MAX;
    let distinct: BTreeSet<_> =
        (0..requests).map(|number| ids(&workload.body(number))[..2].to_vec()).collect();
    assert_eq!(distinct.len() as u64, requests);
}

#[test]
fn siblings_come_one_after_another_and_groups_come_round() {
    let prefix = PrefixConfig { groups: 3, tokens: 16, siblings: 2 };
    let workload = workload(&config("20-30", prefix, WIDE, 1), None);
    let prefixes: Vec<_> = (0..12).map(|number| ids(&workload.body(number))[..16].to_vec()).collect();
    let (a, b, c) = (&prefixes[0], &prefixes[2], &prefixes[4]);
    assert!(a != b && b != c && a != c);
    let order: Vec<_> = prefixes.iter().collect();
    assert_eq!(order, [a, a, b, b, c, c, a, a, b, b, c, c]);
}

#[test]
fn a_prefix_may_be_the_whole_prompt() {
    let prefix = PrefixConfig { groups: 2, tokens: 5, siblings: 4 };
    let workload = workload(&config("5-6", prefix, WIDE, 1), None);
    for number in 0..40 {
        let body = workload.body(number);
        assert!((5..=6).contains(&ids(&body).len()));
    }
}

#[test]
fn a_short_run_prepares_only_what_it_needs() {
    let prefix = PrefixConfig { groups: 1_000_000, tokens: 1000, siblings: 4 };
    let workload = workload(&config("1001", prefix, WIDE, 1), Some(9));
    assert_eq!(held(&workload), (3, 9));
}

#[test]
fn a_pool_beyond_its_bound_is_refused_and_long_prompts_get_fewer_tails() {
    let target = testing::config(Api::Generate, false).target;
    let prefix = PrefixConfig { groups: 1_000_000, tokens: 1000, siblings: 1 };
    let large = config("1001", prefix, WIDE, 1);
    let refused = Workload::try_new(&target, &large, None);
    assert!(matches!(refused, Err(ConfigError::PoolTooLarge { .. })));

    // An id takes up to four bytes with its comma, so 256 MiB hold so many tails.
    let long = config("1000000", PrefixConfig::NONE, WIDE, 1);
    let workload = workload(&long, Some(1000));
    assert_eq!(held(&workload).1, 67);
    assert_eq!(ids(&workload.body(70)).len(), 1_000_000);
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
        let config = config(&format!("{}-{}", prompt.first, prompt.last), prefix, id_span, seed);
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
        let prompt = "32-1000";
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

fn with_output(output_tokens: &str, seed: u64) -> WorkloadConfig {
    WorkloadConfig {
        output_tokens: output_tokens.parse::<Lengths>().unwrap(),
        ..config("4", PrefixConfig::NONE, WIDE, seed)
    }
}

#[test]
fn output_lengths_are_drawn_for_each_request_from_the_seed() {
    let outputs = |config: &WorkloadConfig| {
        let workload = workload(config, Some(4));
        (0..200).map(|number| workload.body(number).output_tokens).collect::<Vec<_>>()
    };
    let config = with_output("1-100", 1);
    let one = outputs(&config);
    assert_eq!(one, outputs(&WorkloadConfig { prompt_seed: 9, ..config }));
    assert_ne!(one, outputs(&with_output("1-100", 2)));
    assert!(one.iter().collect::<BTreeSet<_>>().len() > 50, "{one:?}");
    assert!(one.iter().all(|tokens| (1..=100).contains(tokens)));
}

#[test]
fn the_budget_is_found_whatever_a_model_is_called() {
    let mut target = testing::config(Api::Completions, false).target;
    target.model = Some("\"max_tokens\":18446744073709551615".to_owned());
    let config = config("4", PrefixConfig::NONE, WIDE, 1);
    let body = Workload::try_new(&target, &config, Some(1)).unwrap().body(0);
    let json: Value = serde_json::from_slice(&body.json).unwrap();
    assert_eq!((&json["max_tokens"], &json["model"]), (&Value::from(2), &Value::from(target.model.unwrap())));
}

fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn a_data_set_is_sent_in_its_order_from_the_line_that_is_named() {
    let rows =
        file("{\"token_ids\":[1,2],\"output_tokens\":7}\n{\"token_ids\":[3]}\n{\"token_ids\":[4,5]}\n");
    let set = Arc::new(DataSet::read(rows.path()).unwrap());
    let prompts = PromptSource::DataSet { order: Matched::new(&set, 1).order(0, 2), set };
    let config = WorkloadConfig { prompts, ..with_output("9", 1) };
    let sent = workload(&config, None);
    let shown: Vec<_> =
        (0..4).map(|number| sent.body(number)).map(|body| (ids(&body), body.output_tokens)).collect();
    assert_eq!(shown, [(vec![4, 5], 9), (vec![1, 2], 7), (vec![3], 9), (vec![4, 5], 9)]);

    let target = testing::config(Api::Generate, false).target;
    let warmup = Workload::warmup(&target, &config, 5).unwrap();
    let shown: Vec<_> = (0..4).map(|number| warmup.body(number)).collect();
    assert_eq!(shown.iter().map(|body| ids(body).len()).collect::<Vec<_>>(), [2, 1, 2, 2]);
    assert!(shown.iter().flat_map(ids).all(|id| (10..=999).contains(&id)), "ids of its own");
    assert_ne!(ids(&shown[0]), ids(&shown[3]));
}

#[test]
fn a_trace_is_sent_with_ids_of_its_own_in_the_warm_up() {
    let row = |output: u32| {
        format!("{{\"timestamp\":0,\"input_length\":24,\"output_length\":{output},\"hash_ids\":[1,2,3]}}\n")
    };
    let rows = file(&[row(5), row(6)].concat());
    let trace = Arc::new(Trace::read(rows.path(), None, 8).unwrap());
    let config = WorkloadConfig { prompts: PromptSource::Trace { trace }, ..with_output("9", 1) };
    let sent = workload(&config, None);
    assert_eq!(ids(&sent.body(0)), ids(&sent.body(1)));
    assert_eq!([sent.body(0).output_tokens, sent.body(1).output_tokens], [5, 6]);
    let target = testing::config(Api::Generate, false).target;
    let warmup = Workload::warmup(&target, &config, 5).unwrap();
    assert_ne!(ids(&warmup.body(0))[..8], ids(&sent.body(0))[..8]);
}
