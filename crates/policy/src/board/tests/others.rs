use super::*;

impl Bench {
    /// An engine says that it has so many continuations and tokens, or nothing any more.
    fn reports(&mut self, place: usize, says: Option<(u64, u64)>) {
        let reported = says.map(|(continuations, tokens)| Reported { continuations, tokens });
        self.board.report(self.slots[place], reported);
    }

    fn others(&self, place: usize) -> Option<(u64, u64)> {
        let others = self.board.load(self.slots[place]).others;
        others.map(|Others { continuations, tokens }| (continuations, tokens))
    }

    fn cost(&mut self, place: usize) -> f64 {
        let slot = self.slots[place];
        let seen = self.explain(&ask(0));
        seen.iter().find(|seen| seen.slot == slot).unwrap().cost
    }
}

#[test]
fn what_two_reports_in_a_row_have_in_common_counts_until_they_end() {
    let mut bench = Bench::kv(1);
    assert_eq!(bench.others(0), None, "nobody tells");
    for (says, counts) in [
        (Some((5, 900)), Some((0, 0))),
        (Some((3, 1000)), Some((3, 900))),
        (Some((9, 100)), Some((3, 100))),
        (Some((9, 100)), Some((9, 100))),
        (Some((0, 0)), Some((0, 0))),
        (Some((2, 7)), Some((0, 0))),
        (Some((2, 7)), Some((2, 7))),
        (None, None),
        (Some((2, 7)), Some((0, 0))),
    ] {
        bench.reports(0, says);
        assert_eq!(bench.others(0), counts, "after {says:?}");
    }
}

#[test]
fn what_is_in_flight_here_is_nobody_elses() {
    let mut bench = Bench::kv(1);
    let mine = bench.choose(&Ask { continuations: 3, ..ask(100) });
    for _ in 0..2 {
        bench.reports(0, Some((3, 100)));
    }
    assert_eq!(bench.others(0), Some((0, 0)));
    for _ in 0..2 {
        bench.reports(0, Some((4, 160)));
    }
    assert_eq!(bench.others(0), Some((1, 60)));
    // It has ended here; the engine's late word for it is not believed at once.
    bench.board.end(mine.ticket);
    bench.reports(0, Some((4, 160)));
    assert_eq!(bench.others(0), Some((1, 60)));
    // An engine that has less than was sent to it takes nothing from the ledger.
    bench.choose(&ask(1000));
    for _ in 0..2 {
        bench.reports(0, Some((0, 0)));
    }
    assert_eq!((bench.others(0), bench.board.load(bench.slots[0]).prefill_tokens), (Some((0, 0)), 1000));
}

#[test]
fn others_cost_what_as_much_of_ours_would_and_do_not_close_a_slot() {
    let spec =
        |name| SlotSpec { capacity_tokens: 1000, running_max: 8, continuations_max: 1, ..spec(name, 0) };
    let mut bench = Bench::new(BoardConfig::new(PolicyKind::Kv, 7), [spec("a"), spec("b")]);
    for (says, cost) in [
        ((8, 900), 45.0),
        ((10, 900), 45.0 + 2.0 * 1024.0),
        ((0, 1000), 50.0 + 100.0),
        ((u64::MAX, u64::MAX), (u64::MAX / 4) as f64 / 1000.0),
    ] {
        for _ in 0..2 {
            bench.reports(0, Some(says));
        }
        assert!((bench.cost(0) - cost).abs() < 1e-9, "{says:?}: {} is not {cost}", bench.cost(0));
    }
    assert_eq!([bench.goes_to(&ask(10)), bench.goes_to(&ask(10))], ["b", "a"], "dear, and open");
    assert_eq!(bench.try_choose(&ask(10)), Err(Refusal::Full), "the limit is of what was sent from here");
}

#[test]
fn cold_prompts_go_where_others_have_sent_less() {
    for policy in [PolicyKind::Kv, PolicyKind::LeastLoaded] {
        let mut bench = Bench::with(BoardConfig::new(policy, 7), 2);
        for _ in 0..2 {
            bench.reports(0, Some((40, 40_000)));
        }
        assert_eq!(bench.goes_to(&ask(100)), "b", "{policy}");
        bench.reports(0, None);
        assert_eq!(bench.goes_to(&ask(100)), "a", "{policy}");
    }
}

#[test]
fn a_report_of_a_slot_that_is_gone_is_no_news_of_the_one_that_follows() {
    let mut bench = Bench::kv(1);
    bench.reports(0, Some((5, 5)));
    bench.board.remove(bench.slots[0]);
    bench.reports(0, Some((5, 5)));
    let again = bench.board.add(spec("a", 0));
    assert_eq!(bench.board.load(again), Load::default());
    bench.reports(0, Some((5, 5)));
    assert_eq!(bench.board.load(again), Load::default());
}
