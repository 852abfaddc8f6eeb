use super::*;

fn ranks() -> Bench {
    let specs = [("a", 0), ("a", 1), ("b", 2), ("b", 3)].map(|(worker, rank)| spec(worker, rank));
    Bench::new(BoardConfig::new(PolicyKind::Kv, 7), specs)
}

fn pinned(worker: Option<&str>, rank: Option<u32>) -> Ask {
    Ask { pin: Some(Pin { worker: worker.map(WorkerId::new), rank }), held: vec![(0, 90)], ..ask(100) }
}

#[track_caller]
fn check(worker: Option<&str>, rank: Option<u32>, expected: Result<(&str, u32), &str>) {
    let outcome = ranks().try_choose(&pinned(worker, rank));
    let outcome =
        outcome.map(|choice| (choice.worker.to_string(), choice.rank)).map_err(|error| error.to_string());
    assert_eq!(outcome, expected.map(|(worker, rank)| (worker.to_owned(), rank)).map_err(str::to_owned));
}

#[test]
fn a_pin_is_honoured_or_refused_with_what_is_valid() {
    check(None, None, Ok(("a", 0)));
    check(Some("b"), None, Ok(("b", 2)));
    check(None, Some(3), Ok(("b", 3)));
    check(Some("b"), Some(3), Ok(("b", 3)));
    check(None, Some(4), Err("rank 4 does not exist; valid: 0 to 3"));
    check(Some("b"), Some(0), Err("rank 0 does not exist on worker b; valid: 2, 3"));
    check(Some("c"), None, Err("worker c does not serve the request; valid: a, b"));
    check(Some("c"), Some(0), Err("worker c does not serve the request; valid: a, b"));
}

#[test]
fn a_pinned_slot_that_is_full_or_excluded_is_not_replaced_by_another() {
    let specs =
        [("a", 0), ("b", 3)].map(|(worker, rank)| SlotSpec { continuations_max: 1, ..spec(worker, rank) });
    let mut bench = Bench::new(BoardConfig::new(PolicyKind::Kv, 7), specs);
    bench.choose(&pinned(None, Some(3)));
    assert_eq!(bench.try_choose(&pinned(None, Some(3))), Err(Refusal::Full));
    let excluded = Ask { exclude: vec![WorkerId::new("a")], ..pinned(Some("a"), None) };
    assert_eq!(bench.try_choose(&excluded), Err(Refusal::Excluded));
    let nothing_held = Ask { held: Vec::new(), ..pinned(Some("a"), None) };
    assert_eq!(Bench::kv(0).try_choose(&nothing_held), Err(Refusal::Nobody));
}

#[test]
fn a_pin_beats_the_session_and_does_not_move_it() {
    let mut bench = ranks();
    let session = Ask { session: Some(9), ..ask(100) };
    let first = bench.choose(&session);
    assert_eq!(first.rule, Rule::Policy);
    bench.board.end(first.ticket);
    let choice = bench.choose(&Ask { session: Some(9), ..pinned(Some("b"), Some(3)) });
    assert_eq!((choice.rank, choice.rule), (3, Rule::Pin));
    let choice = bench.choose(&session);
    assert_eq!((choice.rank, choice.rule), (0, Rule::Session));
}

#[test]
fn the_direct_policy_takes_pinned_requests_only() {
    let specs = [("a", 0), ("a", 1)].map(|(worker, rank)| spec(worker, rank));
    let mut bench = Bench::new(BoardConfig::new(PolicyKind::Direct, 7), specs);
    assert_eq!(bench.try_choose(&ask(10)), Err(Refusal::PinRequired));
    assert_eq!(bench.try_choose(&pinned(None, None)), Err(Refusal::PinRequired));
    assert_eq!(bench.choose(&pinned(Some("a"), None)).rank, 0);
    assert_eq!(bench.choose(&pinned(Some("a"), None)).rank, 1);
}

#[test]
fn an_error_lists_a_bounded_number_of_names() {
    let specs = (0..100).map(|index| spec(&format!("w{index:02}"), 0));
    let mut bench = Bench::new(BoardConfig::new(PolicyKind::Kv, 7), specs);
    let Err(Refusal::UnknownWorker { valid, .. }) = bench.try_choose(&pinned(Some("x"), None)) else {
        panic!("an unknown worker was accepted");
    };
    assert_eq!(valid.len(), 64);
}
