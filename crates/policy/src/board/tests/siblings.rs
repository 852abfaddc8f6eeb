use super::*;

fn bench(siblings: SiblingRule, workers: usize) -> Bench {
    Bench::with(BoardConfig { siblings, ..BoardConfig::new(PolicyKind::Kv, 7) }, workers)
}

fn group(letters: &str) -> Ask {
    Ask { prefix: Some(prefix(letters)), ..ask(16 * letters.len() as u32 + 5) }
}

#[test]
fn siblings_join_before_any_block_exists_up_to_a_bound_of_load() {
    let mut bench = bench(SiblingRule::Colocate { load_tokens_max: 40 }, 4);
    let choices: Vec<Choice> = (0..12).map(|_| bench.choose(&group("abcdefgh"))).collect();
    let together = choices.iter().take_while(|choice| choice.worker.as_str() == "a").count();
    assert!((4..12).contains(&together), "{together}");
    assert_eq!(choices[1].rule, Rule::Siblings);
    // The prompt is computed once per slot, and the bound opens a new one for every four siblings.
    let computed = choices.iter().filter(|choice| choice.uncached_tokens == 133).count();
    assert_eq!(computed, 3);
}

#[test]
fn different_groups_do_not_follow_each_other() {
    let mut bench = bench(SiblingRule::Colocate { load_tokens_max: 4096 }, 3);
    let order: Vec<String> = ["aaaaaaaa", "bbbbbbbb", "cccccccc", "aaaaaaaa", "bbbbbbbb"]
        .map(|g| bench.goes_to(&group(g)))
        .to_vec();
    assert_eq!(order, ["a", "b", "c", "a", "b"]);
}

#[test]
fn spread_takes_the_fewest_siblings_first_even_against_the_cache() {
    let mut bench = bench(SiblingRule::Spread, 3);
    let held = Ask { held: vec![(1, 128)], ..group("abcdefgh") };
    let order: Vec<String> = (0..6).map(|_| bench.goes_to(&held)).collect();
    assert_eq!(order, ["b", "a", "c", "b", "a", "c"]);
}

#[test]
fn siblings_that_ended_are_no_siblings() {
    let mut bench = bench(SiblingRule::Spread, 2);
    let first = bench.choose(&group("abcd"));
    let second = bench.choose(&group("abcd"));
    assert_eq!((first.worker.as_str(), second.worker.as_str()), ("a", "b"));
    bench.board.end(first.ticket);
    assert_eq!(bench.goes_to(&group("abcd")), "a");
}

#[test]
fn ignored_siblings_count_like_any_others() {
    let mut bench = bench(SiblingRule::Ignore, 3);
    let order: Vec<String> = (0..3).map(|_| bench.goes_to(&group("abcdefgh"))).collect();
    assert_eq!(order, ["a", "b", "c"]);
}

#[test]
fn a_sibling_whose_slot_is_full_goes_elsewhere() {
    let specs = ["a", "b"].map(|name| SlotSpec { continuations_max: 1, ..spec(name, 0) });
    for siblings in [SiblingRule::Colocate { load_tokens_max: u32::MAX }, SiblingRule::Spread] {
        let config = BoardConfig { siblings, ..BoardConfig::new(PolicyKind::Kv, 7) };
        let mut bench = Bench::new(config, specs.clone());
        assert_eq!([bench.goes_to(&group("ab")), bench.goes_to(&group("ab"))], ["a", "b"]);
        assert_eq!(bench.try_choose(&group("ab")), Err(Refusal::Full));
    }
}
