use super::*;

fn limited(continuations_max: u32) -> Bench {
    let specs = ["a", "b"].map(|name| SlotSpec { continuations_max, ..spec(name, 0) });
    Bench::new(BoardConfig::new(PolicyKind::Kv, 7), specs)
}

#[test]
fn a_slot_at_its_limit_is_passed_over_and_all_at_theirs_are_full() {
    let mut bench = limited(2);
    let holder = Ask { held: vec![(0, 99)], ..ask(100) };
    let first = bench.choose(&holder);
    assert_eq!([bench.goes_to(&holder), bench.goes_to(&holder), bench.goes_to(&holder)], ["a", "b", "b"]);
    assert_eq!(bench.try_choose(&holder), Err(Refusal::Full));
    assert!(bench.explain(&holder).iter().all(|seen| seen.unfit == Some(Unfit::Full)));
    bench.board.end(first.ticket);
    assert_eq!(bench.goes_to(&holder), "a");
}

#[test]
fn several_continuations_need_room_together_but_an_empty_slot_takes_any_number() {
    let mut bench = limited(4);
    let many = |continuations| Ask { continuations, ..ask(10) };
    assert_eq!(bench.goes_to(&many(100)), "a");
    assert_eq!(bench.goes_to(&many(3)), "b");
    assert_eq!(bench.try_choose(&many(2)), Err(Refusal::Full));
    assert_eq!(bench.goes_to(&many(1)), "b");
}

#[test]
fn a_refusal_says_what_stands_in_the_way() {
    let mut bench = limited(1);
    let workers = ["a", "b"].map(WorkerId::new).to_vec();
    let excluded = Ask { exclude: workers, ..ask(10) };
    assert_eq!(bench.try_choose(&excluded), Err(Refusal::Excluded));
    bench.choose(&ask(10));
    let half = Ask { exclude: vec![WorkerId::new("b")], ..ask(10) };
    assert_eq!(bench.try_choose(&half), Err(Refusal::Full));
    assert_eq!(bench.goes_to(&ask(10)), "b");
    for slot in bench.slots.clone() {
        bench.board.remove(slot);
    }
    assert_eq!(bench.try_choose(&ask(10)), Err(Refusal::Nobody));
}

#[test]
fn a_query_sees_only_the_slots_of_its_groups() {
    let other = SlotSpec { group: Group(2), ..spec("a", 0) };
    let mut bench = Bench::new(BoardConfig::new(PolicyKind::Kv, 7), [other, spec("b", 0)]);
    let held = Ask { held: vec![(0, 99)], ..ask(100) };
    assert_eq!(bench.goes_to(&held), "b");
    assert_eq!(bench.explain(&held).len(), 1);
}

#[test]
fn why_a_slot_cannot_be_chosen_is_said_in_words() {
    for (unfit, words) in [
        (Unfit::Excluded, "excluded by the request"),
        (Unfit::PinnedElsewhere, "the request is pinned elsewhere"),
        (Unfit::Full, "at its limit"),
    ] {
        assert_eq!(unfit.to_string(), words);
    }
}
