//! What a request does to the books between its choice and its end: each condition has a row on either side of it.

use tito_types::{Candidates, PromptOutput};

use super::blocks::{asked, store};
use super::*;

/// Tokens of the prompt: three full blocks and two tokens.
const PROMPT: u32 = 14;

fn prompt(tokens: u32) -> Vec<u32> {
    (1..=tokens).collect()
}

/// Prefill and decode tokens on the only target.
fn load(bench: &Bench) -> (u64, u64) {
    let load = bench.route.workers()[0].targets[0].load;
    (load.prefill_tokens, load.decode_tokens)
}

/// Sends a request for `n` continuations to an engine that sends these deltas and no more, and says what is charged after
/// each of them.
async fn charged(n: u32, deltas: Vec<Delta>) -> Vec<(u64, u64)> {
    let count = deltas.len();
    let script = Script { items: deltas.into_iter().map(Ok).collect(), hang: true, ..Script::default() };
    let bench = Bench::new(&[Fake::new(move |_| script.clone())]);
    let request = GenerateRequest { n, ..asked(&prompt(PROMPT)) };
    let mut stream = bench.route.generate(request).await.expect("accepted");
    let mut charged = vec![load(&bench)];
    for _ in 0..count {
        TokenStream::next(&mut stream).await.expect("a delta").expect("no failure");
        charged.push(load(&bench));
    }
    drop(stream);
    assert_eq!(load(&bench), (0, 0), "all is given back");
    charged
}

#[tokio::test]
async fn a_prefill_ends_with_the_first_token_or_with_the_end_of_a_choice() {
    let of_the_prompt = || {
        let prompt = PromptOutput { prompt_tokens: PROMPT, ..PromptOutput::default() };
        Delta { prompt: Some(Box::new(prompt)), ..tokens(0, &[]) }
    };
    let first = vec![of_the_prompt(), tokens(0, &[]), tokens(0, &[1]), tokens(0, &[2])];
    assert_eq!(charged(1, first).await, [(14, 0), (14, 0), (14, 0), (0, 14), (0, 14)]);
    let ended = vec![tokens(1, &[]), last(1, &[], 0), tokens(0, &[1])];
    assert_eq!(charged(2, ended).await, [(14, 0), (14, 0), (0, 14), (0, 14)]);
}

#[tokio::test]
async fn output_is_charged_in_steps_of_sixty_four_tokens_over_all_choices() {
    let of = |index: u32, count: usize| tokens(index, &vec![7; count]);
    let one = vec![of(0, 63), of(0, 1), of(0, 1), of(0, 62), of(0, 1), of(0, 64), of(0, 200)];
    let decode = [14, 14 + 64, 14 + 64, 14 + 64, 14 + 128, 14 + 192, 14 + 392].map(|tokens| (0, tokens));
    assert_eq!(charged(1, one).await, [&[(14, 0)], &decode[..]].concat());
    let two = vec![of(0, 32), of(1, 31), of(1, 1)];
    assert_eq!(charged(2, two).await, [(14, 0), (0, 14), (0, 14), (0, 14 + 64)]);
}

/// What the engine is asked for and what it then reports as cached; what the metrics say of the comparison: cached tokens
/// expected and reported, and the word for how they differ. `None` where nothing is compared.
async fn check(
    about: &str,
    change: impl FnOnce(&Bench, &mut GenerateRequest),
    reported: Option<u32>,
    expected: Option<(u32, u32, &str)>,
) {
    let cached = Fake::new(move |request| {
        let ends = (0..request.n).map(|index| {
            let mut end = last(index, &[1], 1);
            end.finish.as_mut().expect("it is the last").cached_tokens = reported;
            Ok(end)
        });
        Script { items: ends.collect(), ..Script::default() }
    });
    let bench = Bench::new(&[cached]);
    let target = bench.target(0, 0);
    target.apply(&bench.blocks, KvNews::Complete);
    store(&bench, &target, &prompt(PROMPT), Vec::new(), None);
    let mut request = asked(&prompt(PROMPT));
    change(&bench, &mut request);
    let mut stream = bench.route.generate(request).await.expect("accepted");
    while TokenStream::next(&mut stream).await.is_some() {}
    let metrics = bench.metrics();
    let found: Vec<&str> = metrics.lines().filter(|line| line.contains("cache")).collect();
    let found: Vec<&str> = found.into_iter().filter(|line| !line.starts_with('#')).collect();
    let lines = expected.map(|(expected, reported, word)| {
        [
            format!("predicted_cached_tokens_total{{worker=\"a\"}} {expected}"),
            format!("reported_cached_tokens_total{{worker=\"a\"}} {reported}"),
            format!("cache_reports_total{{result=\"{word}\"}} 1"),
        ]
    });
    assert_eq!(found, lines.iter().flatten().collect::<Vec<_>>(), "{about}");
}

#[tokio::test]
async fn what_an_engine_reports_is_held_against_what_was_known_where_that_can_be_known() {
    let nothing = |_: &Bench, _: &mut GenerateRequest| {};
    check("as much", nothing, Some(12), Some((12, 12, "equal"))).await;
    check("less", nothing, Some(8), Some((12, 8, "less_cached"))).await;
    check("more", nothing, Some(13), Some((12, 13, "more_cached"))).await;
    check("it says nothing", nothing, None, None).await;
    let prompt_of =
        |tokens| move |_: &Bench, request: &mut GenerateRequest| request.prompt = prompt(tokens)[..].into();
    check("one token is always computed", prompt_of(12), Some(8), Some((8, 8, "equal"))).await;
    check("only what the prompt shares", prompt_of(9), Some(8), Some((8, 8, "equal"))).await;
    check("only what is held", prompt_of(40), Some(12), Some((12, 12, "equal"))).await;
    let unknown = |_: &Bench, request: &mut GenerateRequest| request.prompt = [90, 91, 92, 93, 94][..].into();
    check("nothing is held", unknown, Some(0), Some((0, 0, "equal"))).await;

    let bypass = |_: &Bench, request: &mut GenerateRequest| request.kv.bypass_prefix_cache = true;
    check("the cache is not read", bypass, Some(0), Some((0, 0, "equal"))).await;
    let logprobs =
        |_: &Bench, request: &mut GenerateRequest| request.outputs.prompt_logprobs = Some(Candidates::Top(1));
    check("nor for log-probs of the prompt", logprobs, Some(0), Some((0, 0, "equal"))).await;

    let several = |_: &Bench, request: &mut GenerateRequest| request.n = 2;
    check("continuations find what the first computed", several, Some(12), None).await;
    let told = |news: KvNews| {
        move |bench: &Bench, _: &mut GenerateRequest| bench.target(0, 0).apply(&bench.blocks, news)
    };
    check("a batch is missing", told(KvNews::Unproven), Some(12), None).await;
    check("its events are no measure", told(KvNews::NotCompared("a window".into())), Some(12), None).await;
    let raw = |bench: &Bench, request: &mut GenerateRequest| {
        bench.target(0, 0).apply(&bench.blocks, KvNews::MediaInexact("bare identifiers".into()));
        request.media = super::blocks::image("x");
    };
    check("images that cannot be told apart", raw, Some(4), None).await;
}

/// A registry shows these of what the board keeps: requests, sessions, expected prompts and those refused.
#[tokio::test]
async fn what_the_board_keeps_is_shown_by_value() {
    let mut bench = Bench::new(&[hanging()]);
    let mut config = bench.route.shared.config.clone();
    config.board.predicted_max = 2;
    let (fleet, blocks) = (bench.sender.subscribe(), Arc::clone(&bench.blocks));
    bench.registry = Registry::default();
    let route = Route::new(fleet, blocks, config, RouteMetrics::register(&mut bench.registry));
    route.register(&mut bench.registry);
    let check = |tickets: u32, sessions: u32, predicted: u32, refused: u32| {
        let metrics = bench.metrics();
        for line in [
            format!("tickets {tickets}\n"),
            format!("sessions {sessions}\n"),
            format!("predicted_prompts {predicted}\n"),
            format!("predicted_refused_total {refused}\n"),
        ] {
            assert!(metrics.contains(&format!("\n{line}")), "no {line}{metrics}");
        }
    };
    check(0, 0, 0, 0);
    let mut held = Vec::new();
    for (at, session) in ["a", "b", "a"].into_iter().enumerate() {
        let tokens: Vec<u32> = (0..8).map(|token| 100 * at as u32 + token).collect();
        let request = GenerateRequest { session: Some(session.to_owned()), ..asked(&tokens) };
        held.push(route.generate(request).await.expect("accepted"));
    }
    check(3, 2, 2, 1);
    drop(held);
    check(0, 2, 0, 1);
}

#[tokio::test]
async fn each_contact_is_counted_as_what_it_was() {
    let bench = Bench::new(&[refusing(unreached()), answering(2)]);
    for _ in 0..2 {
        let mut stream = bench.route.generate(request(Delivery::Whole)).await.expect("the other answers");
        while TokenStream::next(&mut stream).await.is_some() {}
    }
    let metrics = bench.metrics();
    let mut found: Vec<&str> = metrics.lines().filter(|line| line.starts_with("dispatches_total{")).collect();
    found.sort_unstable();
    let expected = [
        "dispatches_total{worker=\"a\",rank=\"0\",contact=\"first\"} 2",
        "dispatches_total{worker=\"b\",rank=\"0\",contact=\"second\"} 2",
    ];
    assert_eq!(found, expected);
}

/// Requests that were over before their prompt was seen would otherwise be kept until their turn to be looked at comes.
#[tokio::test]
async fn requests_that_are_over_are_not_watched_for_long() {
    let bench = Bench::new(&[hanging()]);
    let watched = || bench.route.shared.silent().watched();
    let fill = async |count: u32| {
        let mut held = Vec::new();
        for number in 0..count {
            let tokens: Vec<u32> = (0..8).map(|at| 1000 * number + at).collect();
            let whole = GenerateRequest { delivery: Delivery::Whole, ..asked(&tokens) };
            held.push(bench.route.generate(whole).await.expect("accepted"));
        }
        held
    };
    let mut held = fill(200).await;
    assert_eq!(watched(), 200);
    held.truncate(68);
    assert_eq!(watched(), 200, "twice those in flight and 64");
    held.truncate(67);
    assert_eq!(watched(), 67, "one less");
    held.clear();
    assert_eq!(watched(), 1, "dropped when one was left");
}
