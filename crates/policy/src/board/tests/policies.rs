use super::*;

fn bench(policy: PolicyKind, workers: usize) -> Bench {
    Bench::with(BoardConfig::new(policy, 7), workers)
}

fn counts(bench: &mut Bench, requests: usize, ask: &Ask) -> Vec<usize> {
    let mut counts = vec![0; bench.slots.len()];
    for _ in 0..requests {
        let slot = bench.choose(ask).slot;
        counts[bench.slots.iter().position(|known| *known == slot).unwrap()] += 1;
    }
    counts
}

#[test]
fn every_policy_has_a_word_and_reads_it_back() {
    for kind in PolicyKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let error = "kvv".parse::<PolicyKind>().unwrap_err().to_string();
    assert_eq!(
        error,
        "no policy is called \"kvv\"; there are kv, round-robin, random, power-of-two, least-loaded, direct"
    );
}

#[test]
fn round_robin_takes_turns_and_a_newcomer_waits_for_no_one() {
    let mut bench = bench(PolicyKind::RoundRobin, 3);
    let order: Vec<String> = (0..4).map(|_| bench.goes_to(&ask(10))).collect();
    assert_eq!(order, ["a", "b", "c", "a"]);
    let newcomer = bench.board.add(spec("d", 0));
    bench.slots.push(newcomer);
    bench.board.remove(bench.slots[1]);
    let order: Vec<String> = (0..4).map(|_| bench.goes_to(&ask(10))).collect();
    assert_eq!(order, ["d", "c", "a", "d"]);
}

#[test]
fn random_choices_are_even_and_follow_from_the_seed() {
    let run = || counts(&mut bench(PolicyKind::Random, 4), 4000, &ask(10));
    assert!(run().iter().all(|&count| (850..1150).contains(&count)), "{:?}", run());
    assert_eq!(run(), run());
}

#[test]
fn power_of_two_never_takes_the_most_loaded_slot() {
    let mut bench = bench(PolicyKind::PowerOfTwo, 3);
    bench
        .board
        .begin(bench.slots[1], Charge { prompt_tokens: 9, uncached_tokens: 1_000_000, continuations: 1 });
    bench
        .board
        .begin(bench.slots[1], Charge { prompt_tokens: 900_000_000, uncached_tokens: 0, continuations: 1 });
    assert_eq!(counts(&mut bench, 100, &ask(10))[1], 0);
    let mut alone = self::bench(PolicyKind::PowerOfTwo, 1);
    assert_eq!(alone.goes_to(&ask(10)), "a");
}

#[test]
fn least_loaded_does_not_ask_what_a_slot_holds() {
    let mut bench = bench(PolicyKind::LeastLoaded, 2);
    let cached_on_a = Ask { held: vec![(0, 99)], ..ask(100) };
    assert_eq!([bench.goes_to(&cached_on_a), bench.goes_to(&cached_on_a)], ["a", "b"]);
}

#[test]
fn every_policy_passes_over_what_does_not_fit() {
    for kind in PolicyKind::ALL.into_iter().filter(|kind| *kind != PolicyKind::Direct) {
        let others = ["b", "c", "d"].map(|name| spec(name, 0));
        let specs = [SlotSpec { continuations_max: 1, ..spec("a", 0) }].into_iter().chain(others);
        let mut bench = Bench::new(BoardConfig::new(kind, 7), specs);
        bench.board.begin(bench.slots[0], Charge { prompt_tokens: 0, uncached_tokens: 0, continuations: 1 });
        let query = Ask { exclude: vec![WorkerId::new("b")], ..ask(10) };
        let counts = counts(&mut bench, 40, &query);
        assert_eq!((counts[0], counts[1]), (0, 0), "{kind}");
        assert!(counts[2] > 0 && counts[3] > 0, "{kind}: {counts:?}");
    }
}

#[test]
fn a_temperature_gives_dearer_slots_a_chance_that_grows_with_it() {
    let on_holder = |temperature| {
        let config = BoardConfig { temperature, ..BoardConfig::new(PolicyKind::Kv, 7) };
        let query = Ask { held: vec![(2, 500)], ..ask(1000) };
        (0..2000u64)
            .filter(|&seed| {
                let mut bench = Bench::with(BoardConfig { seed, ..config }, 4);
                bench.goes_to(&query) == "c"
            })
            .count()
    };
    let (cold, mild, hot) = (on_holder(0.0), on_holder(0.5), on_holder(1000.0));
    assert_eq!(cold, 2000);
    // One slot at cost 0 and three at 1: e⁰ / (e⁰ + 3 e⁻²) = 71 %.
    assert!((1350..1490).contains(&mild), "{mild}");
    assert!((440..560).contains(&hot), "{hot}");
}
