use super::*;

fn session(key: u64, prompt: u32) -> Ask {
    Ask { session: Some(key), ..ask(prompt) }
}

#[test]
fn a_session_stays_until_the_wait_exceeds_the_prefill_it_saves() {
    let mut bench = Bench::kv(2);
    let turn = bench.choose(&session(1, 1000));
    bench.board.prefill_done(turn.ticket, bench.now);
    bench.board.end(turn.ticket);
    // Nothing tells what is cached: the last prompt is taken to be there.
    let load = |bench: &mut Bench, tokens| {
        let charge = Charge { prompt_tokens: tokens, uncached_tokens: tokens, continuations: 1 };
        bench.board.begin(bench.slots[0], charge)
    };
    let ticket = load(&mut bench, 900);
    assert_eq!(bench.choose(&session(1, 1500)).rule, Rule::Session);
    bench.board.end(ticket);
    let mut bench = Bench::kv(2);
    bench.choose(&session(1, 1000));
    load(&mut bench, 1200);
    let moved = bench.choose(&session(1, 1500));
    assert_eq!((moved.worker.as_str(), moved.rule), ("b", Rule::Policy));
    assert_eq!(bench.choose(&session(1, 1500)).worker.as_str(), "b");
}

#[test]
fn where_the_block_table_is_known_only_what_it_holds_keeps_a_session() {
    let mut bench = Bench::kv(2);
    for slot in bench.slots.clone() {
        bench.board.set_known(slot, true);
    }
    bench.choose(&session(1, 1000));
    let gone = bench.choose(&session(1, 1500));
    assert_eq!((gone.worker.as_str(), gone.rule), ("b", Rule::Policy));
    let held = bench.choose(&Ask { held: vec![(1, 1400)], ..session(1, 1500) });
    assert_eq!((held.worker.as_str(), held.rule), ("b", Rule::Session));
}

#[test]
fn requests_without_a_session_have_nothing_in_common() {
    let mut bench = Bench::with(BoardConfig::new(PolicyKind::RoundRobin, 7), 3);
    let order: Vec<String> = (0..3).map(|_| bench.goes_to(&ask(10))).collect();
    assert_eq!(order, ["a", "b", "c"]);
    assert_eq!(bench.board.stats().sessions, 0);
}

#[test]
fn a_session_holds_for_policies_that_know_no_cache_and_ends_with_its_slot() {
    let mut bench = Bench::with(BoardConfig::new(PolicyKind::RoundRobin, 7), 3);
    let first = bench.choose(&session(1, 100));
    bench.board.end(first.ticket);
    bench.goes_to(&ask(1));
    assert_eq!(bench.goes_to(&session(1, 100)), "a");
    bench.board.remove(first.slot);
    let moved = bench.choose(&session(1, 100));
    assert_eq!((moved.worker.as_str(), moved.rule), ("c", Rule::Policy));
}

#[test]
fn stickiness_can_be_hard_or_off() {
    let run = |stickiness| {
        let config = BoardConfig { stickiness, ..BoardConfig::new(PolicyKind::Kv, 7) };
        let mut bench = Bench::with(config, 2);
        let order: Vec<String> = (0..4).map(|_| bench.goes_to(&session(1, 1000))).collect();
        order.concat()
    };
    assert_eq!(run(Stickiness::Hard), "aaaa");
    assert_eq!(run(Stickiness::Off), "abab");
}

#[test]
fn an_idle_session_is_forgotten() {
    let mut bench = Bench::kv(2);
    bench.choose(&session(1, 1000));
    bench.now = Duration::from_secs(3600);
    assert_eq!(bench.choose(&session(1, 1000)).rule, Rule::Policy);
}
