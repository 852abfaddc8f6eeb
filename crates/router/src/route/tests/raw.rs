//! Prompts with media that the engine expands.

use tito_types::RawMedia;

use super::blocks::{asked, goes, store};
use super::*;

/// A prompt with one raw image.
fn with_image(tokens: &[u32], url: &str) -> GenerateRequest {
    let image = RawMedia { modality: Modality::Image, url: url.into(), identifier: None };
    GenerateRequest { media: Media::Raw(Arc::new([image])), ..asked(tokens) }
}

/// Sends it, and says where it went and what decided.
async fn sent(bench: &Bench, request: GenerateRequest) -> (TokenStream, (String, &'static str)) {
    let tokens = bench.route.generate(request).await.expect("accepted");
    let placement = tokens.placement().expect("it was placed");
    let went = (placement.worker.as_str().to_owned(), placement.rule);
    (tokens, went)
}

#[test]
fn the_text_before_the_image_attracts_and_what_an_engine_expanded_does_not_match() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let prompt: Vec<u32> = (1..=14).collect();
    // As an engine has it: the sixth token thrice, with the image in it.
    let expanded: Vec<u32> = [&prompt[..6], &[6, 6], &prompt[6..]].concat();
    let image = |offset| BlockExtras {
        media: vec![MediaInBlock { identifier: "x".into(), offset }],
        opaque: Vec::new(),
    };
    let extras = vec![BlockExtras::default(), image(1), BlockExtras::default(), BlockExtras::default()];
    store(&bench, &bench.target(1, 0), &expanded, extras, None);
    assert_eq!(goes(&bench, &with_image(&prompt, "data:,a")), ("b".into(), 4));
    bench.target(1, 0).apply(&bench.blocks, KvNews::MediaInexact("bare identifiers".into()));
    assert_eq!(goes(&bench, &with_image(&prompt, "data:,a")), ("b".into(), 4));
    assert_eq!(goes(&bench, &with_image(&prompt[..3], "data:,a")), ("a".into(), 0), "no whole block");
}

#[tokio::test]
async fn what_is_held_of_the_text_is_not_what_the_engine_should_report() {
    let bench = Bench::new(&[Fake::new(|_| {
        let mut end = last(0, &[1], 1);
        end.finish.as_mut().expect("it is the last").cached_tokens = Some(4);
        Script { items: vec![Ok(end)], ..Script::default() }
    })]);
    let prompt: Vec<u32> = (1..=14).collect();
    store(&bench, &bench.target(0, 0), &prompt, Vec::new(), None);
    let run = async |request| {
        let (mut tokens, _) = sent(&bench, request).await;
        while TokenStream::next(&mut tokens).await.is_some() {}
    };
    run(with_image(&prompt, "data:,a")).await;
    let metrics = bench.metrics();
    assert!(metrics.contains("overlap_tokens_total 12"), "{metrics}");
    assert!(metrics.contains("token_only_requests_total 1"), "{metrics}");
    assert!(!metrics.contains("cache_reports_total{"), "{metrics}");
    run(asked(&prompt)).await;
    let metrics = bench.metrics();
    assert!(metrics.contains("cache_reports_total{result=\"less_cached\"} 1"), "{metrics}");
}

#[tokio::test]
async fn equal_prompts_are_siblings_and_those_with_another_image_are_not() {
    let bench = Bench::new(&[hanging(), hanging()]);
    let went = |worker: &str, rule| (worker.to_owned(), rule);
    let (_first, first) = sent(&bench, with_image(&[1; 9], "data:,a")).await;
    let (_sibling, sibling) = sent(&bench, with_image(&[1; 9], "data:,a")).await;
    assert_eq!((first, sibling), (went("a", "policy"), went("a", "siblings")));
    let (_other, other) = sent(&bench, with_image(&[1; 9], "data:,b")).await;
    assert_eq!(other, went("b", "policy"), "another image");
    let predicted = |request: &GenerateRequest| {
        let mut candidates = bench.route.explain(request).candidates;
        candidates.sort_by(|a, b| a.worker.cmp(&b.worker));
        candidates.iter().map(|candidate| candidate.predicted_tokens).collect::<Vec<_>>()
    };
    assert_eq!(predicted(&with_image(&[1; 9], "data:,a")), [8, 0]);
    assert_eq!(predicted(&with_image(&[1; 9], "data:,b")), [0, 8]);
    assert_eq!(predicted(&with_image(&[1; 9], "data:,c")), [0, 0]);
    assert_eq!(predicted(&asked(&[1; 9])), [0, 0], "nor is its text expected anywhere");
    let (_short, short) = sent(&bench, with_image(&[1; 3], "data:,a")).await;
    let (_again, again) = sent(&bench, with_image(&[1; 3], "data:,a")).await;
    assert_eq!((short.1, again.1), ("policy", "policy"), "no whole block");
}

#[test]
fn a_prompt_that_waits_is_hashed_once() {
    let bench = Bench::new(&[answering(1)]);
    let (prompt, mut chains) = (with_image(&[1; 14], "data:,a"), Chains::default());
    let mut look =
        || bench.route.shared.wish(&prompt, &mut chains).held.prefix.expect("three full blocks").chain;
    let first = look();
    assert!(Arc::ptr_eq(&first, &look()), "the same hashes, not equal ones");
}
