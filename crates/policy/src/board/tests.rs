use std::sync::Arc;
use std::time::Duration;

use tito_types::WorkerId;

use super::*;
use crate::{Others, Overlap, Pin, Prefix, Reported, Unfit};

mod ledger;
mod limits;
mod others;
mod pins;
mod policies;
mod scan;
mod sessions;
mod siblings;

/// A board and the names of its slots, for tests that read as a story.
struct Bench {
    board: Board,
    slots: Vec<Slot>,
    now: Duration,
}

/// A request as tests write it.
#[derive(Clone, Default)]
struct Ask {
    prompt: u32,
    continuations: u32,
    /// Tokens in device memory, by place in [`Bench::slots`].
    held: Vec<(usize, u32)>,
    prefix: Option<Prefix>,
    session: Option<u64>,
    pin: Option<Pin>,
    exclude: Vec<WorkerId>,
}

fn ask(prompt: u32) -> Ask {
    Ask { prompt, continuations: 1, ..Ask::default() }
}

/// Blocks of 16 tokens whose hashes depend on the letters up to each.
fn prefix(letters: &str) -> Prefix {
    let chain: Arc<[u64]> = letters
        .bytes()
        .scan(1u64, |state, letter| {
            *state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(letter);
            Some(*state)
        })
        .collect();
    Prefix { block_tokens: 16, chain }
}

fn spec(worker: &str, rank: u32) -> SlotSpec {
    SlotSpec {
        worker: WorkerId::new(worker),
        rank,
        group: Group(1),
        capacity_tokens: 1_000_000,
        running_max: 256,
        continuations_max: u32::MAX,
    }
}

impl Bench {
    fn new(config: BoardConfig, specs: impl IntoIterator<Item = SlotSpec>) -> Self {
        let mut board = Board::new(config);
        let slots = specs.into_iter().map(|spec| board.add(spec)).collect();
        Self { board, slots, now: Duration::ZERO }
    }

    /// One-rank workers `a`, `b`, … under the `kv` policy.
    fn kv(workers: usize) -> Self {
        Self::with(BoardConfig::new(PolicyKind::Kv, 7), workers)
    }

    fn with(config: BoardConfig, workers: usize) -> Self {
        let name = |index: usize| char::from(b'a' + index as u8).to_string();
        Self::new(config, (0..workers).map(|index| spec(&name(index), 0)))
    }

    fn query<T>(&mut self, ask: &Ask, run: impl FnOnce(&mut Board, &Query<'_>, Duration) -> T) -> T {
        let overlap = |&(place, gpu_tokens): &(usize, u32)| Overlap {
            slot: self.slots[place],
            gpu_tokens,
            cpu_tokens: 0,
            storage_tokens: 0,
        };
        let overlaps: Vec<Overlap> = ask.held.iter().map(overlap).collect();
        let query = Query {
            groups: &[Group(1)],
            prompt_tokens: ask.prompt,
            continuations: ask.continuations,
            overlaps: &overlaps,
            prefix: ask.prefix.as_ref(),
            session: ask.session,
            pin: ask.pin.as_ref(),
            exclude: &ask.exclude,
        };
        run(&mut self.board, &query, self.now)
    }

    fn try_choose(&mut self, ask: &Ask) -> Result<Choice, Refusal> {
        self.query(ask, Board::choose)
    }

    fn choose(&mut self, ask: &Ask) -> Choice {
        self.try_choose(ask).expect("a slot fits")
    }

    /// Chooses, and tells only the worker's id.
    fn goes_to(&mut self, ask: &Ask) -> String {
        self.choose(ask).worker.to_string()
    }

    fn explain(&mut self, ask: &Ask) -> Vec<Candidate> {
        self.query(ask, Board::explain)
    }
}

#[test]
fn the_holder_wins_over_an_idle_slot_when_the_prefill_it_saves_exceeds_its_queue() {
    let held = Ask { held: vec![(1, 800)], ..ask(1000) };
    let mut bench = Bench::kv(2);
    bench.choose(&Ask { held: vec![(1, 100)], ..ask(500) });
    assert_eq!(bench.board.load(bench.slots[1]).prefill_tokens, 400);
    assert_eq!(bench.goes_to(&held), "b");
    bench.choose(&Ask { pin: Some(Pin { worker: Some(WorkerId::new("b")), rank: None }), ..ask(500) });
    assert_eq!(bench.goes_to(&held), "a");
}

#[test]
fn two_equal_requests_spread_when_nothing_is_cached_and_the_first_is_outstanding() {
    let mut bench = Bench::kv(3);
    let destinations: Vec<String> = (0..6).map(|_| bench.goes_to(&ask(1000))).collect();
    assert_eq!(destinations, ["a", "b", "c", "a", "b", "c"]);
}

#[test]
fn a_burst_for_one_hot_prefix_does_not_pile_up_on_its_holder() {
    let mut bench = Bench::kv(4);
    let hot = Ask { held: vec![(0, 1000)], ..ask(2000) };
    let mut counts = [0; 4];
    for _ in 0..40 {
        let slot = bench.choose(&hot).slot;
        counts[bench.slots.iter().position(|known| *known == slot).unwrap()] += 1;
    }
    assert!(counts.iter().all(|&count| count >= 5), "{counts:?}");
    assert!(counts[0] > counts[1], "{counts:?}");
}

#[test]
fn a_few_tokens_that_all_prompts_begin_with_do_not_keep_calm_traffic_on_one_slot() {
    let mut bench = Bench::kv(3);
    let mut counts = [0; 3];
    for _ in 0..60 {
        // Whoever served one request holds the beginning of all.
        let held = (0..3).filter(|&place| counts[place] > 0).map(|place| (place, 16)).collect();
        let choice = bench.choose(&Ask { held, ..ask(1000) });
        counts[bench.slots.iter().position(|slot| *slot == choice.slot).unwrap()] += 1;
        bench.board.end(choice.ticket);
    }
    assert!(counts.iter().all(|&count| count >= 18), "{counts:?}");
}

#[test]
fn a_slot_that_serves_other_names_keeps_its_load_and_its_group_alone_finds_it() {
    let mut bench = Bench::kv(2);
    let first = bench.choose(&Ask { held: vec![(1, 1000)], ..ask(1000) });
    assert_eq!(first.worker, WorkerId::new("b"));
    bench.board.regroup(&[(bench.slots[1], Group(2))]);
    let in_group = |bench: &mut Bench, group: u32| {
        let groups = [Group(group)];
        bench.query(&ask(100), |board, query, now| board.explain(&Query { groups: &groups, ..*query }, now))
    };
    let names = |candidates: Vec<Candidate>| -> Vec<(String, u64)> {
        candidates.iter().map(|seen| (seen.worker.to_string(), seen.load.continuations)).collect()
    };
    assert_eq!(names(in_group(&mut bench, 1)), [("a".into(), 0)]);
    assert_eq!(names(in_group(&mut bench, 2)), [("b".into(), 1)]);
    bench.board.end(first.ticket);
    assert_eq!(names(in_group(&mut bench, 2)), [("b".into(), 0)]);
    bench.board.remove(bench.slots[1]);
    bench.board.regroup(&[(bench.slots[1], Group(1))]);
    assert_eq!(names(in_group(&mut bench, 1)), [("a".into(), 0)], "a slot that is gone stays gone");
}

#[test]
fn what_a_slot_was_given_to_compute_fades() {
    let mut bench = Bench::kv(1);
    let choice = bench.choose(&ask(1000));
    bench.board.end(choice.ticket);
    let mut cost_at = |seconds| {
        bench.now = Duration::from_secs(seconds);
        let choice = bench.choose(&ask(0));
        bench.board.end(choice.ticket);
        (choice.cost * 1000.0).round() as u64
    };
    let costs = [0, 599, 600, 1200, 600 * 70, u64::MAX].map(&mut cost_at);
    assert_eq!(costs, [5000, 5000, 2500, 1250, 0, 0]);
}

#[test]
fn wholly_cached_requests_still_weigh_so_that_a_burst_of_them_spreads_in_the_end() {
    let mut bench = Bench::kv(2);
    let cached = Ask { held: vec![(0, 10_000)], ..ask(10_001) };
    let first_elsewhere = (0..100).find(|_| bench.goes_to(&cached) == "b");
    assert!(first_elsewhere.is_some_and(|count| count >= 10), "{first_elsewhere:?}");
}

#[test]
fn what_was_sent_is_expected_before_any_event_and_reported_apart_from_overlap() {
    let config = BoardConfig { siblings: SiblingRule::Ignore, ..BoardConfig::new(PolicyKind::Kv, 7) };
    let mut bench = Bench::with(config, 2);
    let first = bench.choose(&Ask { prefix: Some(prefix("abcdefgh")), ..ask(128) });
    assert_eq!((first.predicted_tokens, first.uncached_tokens), (0, 128));
    bench.board.prefill_done(first.ticket, bench.now);
    let next = Ask { prefix: Some(prefix("abcdxy")), ..ask(100) };
    let second = bench.choose(&next);
    assert_eq!(second.slot, first.slot);
    assert_eq!((second.overlap_tokens, second.predicted_tokens, second.uncached_tokens), (0, 64, 36));
    bench.board.end(first.ticket);
    bench.board.end(second.ticket);
    bench.now = Duration::from_secs(2);
    assert_eq!(bench.choose(&next).predicted_tokens, 0);
}

#[test]
fn a_request_that_ends_before_its_prefill_leaves_no_expectation() {
    let mut bench = Bench::kv(1);
    let prompt = Ask { prefix: Some(prefix("abcd")), ..ask(64) };
    let choice = bench.choose(&prompt);
    bench.board.end(choice.ticket);
    assert_eq!(bench.board.stats().predicted, 0);
    assert_eq!(bench.choose(&prompt).predicted_tokens, 0);
}

#[test]
fn ties_go_by_worker_then_rank_whatever_the_order_of_arrival() {
    let config = BoardConfig::new(PolicyKind::Kv, 7);
    let mut bench = Bench::new(config, [spec("b", 0), spec("a", 1), spec("a", 0)]);
    let order: Vec<String> = (0..3)
        .map(|_| {
            let choice = bench.choose(&ask(10));
            format!("{}/{}", choice.worker, choice.rank)
        })
        .collect();
    assert_eq!(order, ["a/0", "a/1", "b/0"]);
}

#[test]
fn explaining_changes_nothing_and_shows_what_a_choice_would_see() {
    let mut bench = Bench::kv(3);
    let query = Ask { held: vec![(2, 60)], exclude: vec![WorkerId::new("a")], ..ask(100) };
    let seen = bench.explain(&query);
    assert_eq!(seen, bench.explain(&query));
    let shown: Vec<_> =
        seen.iter().map(|seen| (seen.worker.as_str(), seen.overlap_tokens, seen.cost, seen.unfit)).collect();
    assert_eq!(shown, [("c", 60, 40.0, None), ("b", 0, 100.0, None), ("a", 0, 100.0, Some(Unfit::Excluded))]);
    let preview = bench.query(&query, Board::preview);
    assert_eq!(preview, Ok((WorkerId::new("c"), 0, Rule::Policy)));
    let choice = bench.choose(&query);
    assert_eq!((choice.worker.as_str(), choice.cost), ("c", 40.0));
    assert_eq!(bench.board.stats().tickets, 1);
}

#[test]
fn a_preview_is_what_the_next_choice_will_be_even_when_it_is_drawn() {
    for policy in [PolicyKind::Kv, PolicyKind::Random, PolicyKind::PowerOfTwo, PolicyKind::RoundRobin] {
        let mut bench = Bench::with(BoardConfig::new(policy, 7), 5);
        for session in 0..20 {
            let query = Ask { session: Some(session % 7), prefix: Some(prefix("abc")), ..ask(100) };
            let preview = bench.query(&query, Board::preview).unwrap();
            let choice = bench.choose(&query);
            assert_eq!(preview, (choice.worker, choice.rank, choice.rule), "{policy}");
        }
    }
    let preview = Bench::kv(0).query(&ask(1), Board::preview);
    assert_eq!(preview, Err(Refusal::Nobody));
}

#[test]
fn a_question_sees_no_more_than_a_choice_at_that_time_would() {
    let mut bench = Bench::kv(2);
    let prompt = Ask { prefix: Some(prefix("abcd")), ..ask(64) };
    let sent = bench.choose(&prompt);
    bench.board.prefill_done(sent.ticket, bench.now);
    bench.board.end(sent.ticket);
    let mut seen = |seconds| {
        bench.now = Duration::from_secs(seconds);
        let preview = bench.query(&prompt, Board::preview).unwrap();
        let seen = bench.explain(&prompt);
        assert_eq!(seen[0].worker, preview.0, "after {seconds} s");
        (preview.0.to_string(), seen[0].predicted_tokens, (seen[0].cost * 1000.0).round() as u64)
    };
    assert_eq!(seen(1), ("a".into(), 64, 1320));
    assert_eq!(seen(2), ("b".into(), 0, 64_000));
    assert_eq!(seen(600 * 7), ("a".into(), 0, 64_000));
}

#[test]
fn the_stats_follow_what_comes_and_goes_and_stay_within_their_bounds() {
    let config = BoardConfig {
        sessions_max: 2,
        session_idle: Duration::from_secs(10),
        predicted_max: 2,
        ..BoardConfig::new(PolicyKind::Kv, 7)
    };
    let mut bench = Bench::with(config, 2);
    assert_eq!(bench.board.stats(), BoardStats::default());
    let prompts = ["ab", "cd", "ef"].map(prefix);
    let asks = [0, 1, 2].map(|place| Ask {
        session: Some(place as u64),
        prefix: Some(prompts[place].clone()),
        ..ask(32)
    });
    let [first, second, third] = asks.each_ref().map(|ask| bench.choose(ask).ticket);
    let full = BoardStats { tickets: 3, sessions: 2, predicted: 2, predicted_refused: 1 };
    assert_eq!(bench.board.stats(), full);
    bench.board.end(first);
    assert_eq!(bench.board.stats(), BoardStats { tickets: 2, predicted: 1, ..full });
    bench.board.prefill_done(second, bench.now);
    bench.board.end(second);
    bench.board.end(third);
    assert_eq!(bench.board.stats(), BoardStats { tickets: 0, predicted: 1, ..full });
    bench.now = Duration::from_secs(10);
    bench.choose(&Ask { session: Some(9), ..ask(32) });
    assert_eq!(bench.board.stats(), BoardStats { tickets: 1, sessions: 1, predicted: 0, ..full });
}
