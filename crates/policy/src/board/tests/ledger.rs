use super::*;

#[test]
fn a_request_is_prefill_first_then_decode_then_nothing() {
    let mut bench = Bench::kv(1);
    let slot = bench.slots[0];
    let ticket = bench.choose(&Ask { continuations: 4, held: vec![(0, 48)], ..ask(100) }).ticket;
    let load = |requests, continuations, prefill_tokens, decode_tokens| Load {
        requests,
        continuations,
        prefill_tokens,
        decode_tokens,
        others: None,
    };
    assert_eq!(bench.board.load(slot), load(1, 4, 52, 0));
    bench.board.prefill_done(ticket, bench.now);
    bench.board.prefill_done(ticket, bench.now);
    assert_eq!(bench.board.load(slot), load(1, 4, 0, 100));
    bench.board.grow(ticket, 8);
    assert_eq!(bench.board.load(slot), load(1, 4, 0, 108));
    bench.board.end(ticket);
    assert_eq!(bench.board.load(slot), Load::default());
}

#[test]
fn a_ticket_is_released_once_and_is_harmless_afterwards() {
    let mut bench = Bench::kv(1);
    let slot = bench.slots[0];
    let first = bench.choose(&ask(100)).ticket;
    bench.board.end(first);
    let second = bench.choose(&ask(30)).ticket;
    bench.board.end(first);
    bench.board.prefill_done(first, bench.now);
    bench.board.grow(first, 1000);
    assert_eq!(bench.board.load(slot).prefill_tokens, 30);
    bench.board.end(second);
    assert_eq!(bench.board.load(slot), Load::default());
    assert_eq!(bench.board.stats().tickets, 0);
}

#[test]
fn a_ticket_of_a_removed_slot_does_not_touch_the_slot_that_follows() {
    let mut bench = Bench::kv(1);
    let prompt = Ask { prefix: Some(prefix("abcd")), ..ask(64) };
    let old = bench.choose(&prompt);
    bench.board.remove(old.slot);
    bench.board.remove(old.slot);
    assert_eq!(bench.try_choose(&prompt), Err(Refusal::Nobody));
    let again = bench.board.add(spec("a", 0));
    assert_ne!(again, old.slot);
    let new = bench.choose(&prompt);
    assert_eq!((new.slot, new.predicted_tokens), (again, 0));
    bench.board.grow(old.ticket, 10);
    bench.board.end(old.ticket);
    assert_eq!(
        bench.board.load(again),
        Load { requests: 1, continuations: 1, prefill_tokens: 64, ..Load::default() }
    );
    assert_eq!(bench.board.load(old.slot), Load::default());
    bench.board.end(new.ticket);
    assert_eq!(bench.board.load(again), Load::default());
}

#[test]
fn a_slot_chosen_elsewhere_can_be_charged_too() {
    let mut bench = Bench::kv(2);
    let charge = Charge { prompt_tokens: 500, uncached_tokens: 400, continuations: 2 };
    let ticket = bench.board.begin(bench.slots[0], charge);
    assert_eq!(bench.board.load(bench.slots[0]).prefill_tokens, 400);
    assert_eq!(bench.goes_to(&ask(10)), "b");
    bench.board.end(ticket);
    assert_eq!(bench.board.load(bench.slots[0]), Load::default());
}
