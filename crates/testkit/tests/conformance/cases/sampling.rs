//! How tokens are drawn.

use vllm_proto::GenerateRequest;

use crate::ask::{Ask, greedy, ids, prompt};
use crate::target::Target;

fn sampled(seed: i64) -> GenerateRequest {
    greedy(&prompt(40, 1), 16).with(|request| {
        request.temperature = Some(1.0);
        (request.sampling().seed, request.sampling().top_k) = (Some(seed), Some(0));
        request.sampling().top_p = Some(1.0);
    })
}

pub(crate) async fn only_allowed_tokens_are_drawn(target: &Target) {
    let allowed = [65, 66, 150];
    for request in [greedy(&prompt(40, 1), 16), sampled(1)] {
        let reply = target.both(&request.with(|r| r.decoding().allowed_token_ids = allowed.to_vec())).await;
        assert!(reply.tokens().iter().all(|token| allowed.contains(token)), "{:?}", reply.tokens());
    }
}

pub(crate) async fn a_bias_forces_a_token(target: &Target) {
    let forced = greedy(&prompt(40, 1), 4).with(|request| {
        request.decoding().logit_bias.insert(123, 150.0);
    });
    assert_eq!(target.both(&forced).await.tokens(), [123; 4]);
}

/// Bans some of the tokens that are drawn without a ban, as one word.
async fn ban(target: &Target, length: usize) {
    let plain = target.unary(greedy(&prompt(40, 1), 8)).await.unwrap();
    let word = &plain.tokens()[2..2 + length];
    let without = greedy(&prompt(40, 1), 8).with(|r| r.decoding().bad_words_token_ids = vec![ids(word)]);
    let reply = target.both(&without).await;
    assert!(!reply.tokens().windows(length).any(|drawn| drawn == word), "{word:?} in {:?}", reply.tokens());
    let first = plain.tokens().windows(length).position(|drawn| drawn == word).expect("it is there");
    let before = first + length - 1;
    assert_eq!(reply.tokens()[..before], plain.tokens()[..before], "all but its last token is allowed");
}

pub(crate) async fn a_banned_token_is_not_drawn(target: &Target) {
    ban(target, 1).await;
}

pub(crate) async fn a_banned_sequence_is_not_completed(target: &Target) {
    ban(target, 2).await;
}

pub(crate) async fn a_seed_repeats_and_another_differs(target: &Target) {
    let first = target.both(&sampled(42)).await;
    assert_eq!(target.unary(sampled(42)).await.unwrap().tokens(), first.tokens(), "the same seed");
    assert_ne!(target.unary(sampled(43)).await.unwrap().tokens(), first.tokens(), "another seed");
    let negative = target.both(&sampled(-5)).await;
    assert_eq!(target.unary(sampled(-5)).await.unwrap().tokens(), negative.tokens(), "a negative seed");
    assert_ne!(negative.tokens(), first.tokens(), "a negative seed is one of its own");
}

pub(crate) async fn without_a_seed_equal_requests_differ(target: &Target) {
    let unseeded = || sampled(0).with(|request| request.sampling().seed = None);
    let mut outputs = std::collections::BTreeSet::new();
    for _ in 0..8 {
        outputs.insert(target.unary(unseeded()).await.unwrap().tokens().to_vec());
    }
    assert!(outputs.len() > 1, "eight times {outputs:?}");
}

pub(crate) async fn narrow_limits_are_greedy(target: &Target) {
    let plain = target.unary(greedy(&prompt(40, 1), 16)).await.unwrap();
    for (what, request) in [
        ("top_k 1", sampled(9).with(|r| r.sampling().top_k = Some(1))),
        ("a tiny top_p", sampled(9).with(|r| r.sampling().top_p = Some(1e-6))),
        ("min_p 1", sampled(9).with(|r| r.sampling().min_p = Some(1.0))),
    ] {
        assert_eq!(target.unary(request).await.unwrap().tokens(), plain.tokens(), "{what}");
    }
}

pub(crate) async fn any_seed_and_any_top_k_are_accepted(target: &Target) {
    for seed in [i64::MIN, -1, 0, i64::MAX] {
        assert_eq!(target.unary(sampled(seed)).await.unwrap().tokens().len(), 16, "seed {seed}");
    }
    let huge = target.unary(sampled(1).with(|r| r.sampling().top_k = Some(4_000_000_000))).await;
    assert_eq!(huge.unwrap().tokens().len(), 16, "a top_k beyond the vocabulary");
}

pub(crate) async fn penalties_are_accepted_up_to_their_bounds(target: &Target) {
    for (presence, frequency, repetition) in [(2.0, 2.0, 2.0), (-2.0, -2.0, 0.5), (0.0, 0.0, 1.0)] {
        let penalized = greedy(&prompt(40, 1), 8).with(|request| {
            request.decoding().presence_penalty = presence;
            request.decoding().frequency_penalty = frequency;
            request.decoding().repetition_penalty = repetition;
        });
        let reply = target.both(&penalized).await;
        assert_eq!(reply.tokens().len(), 8, "{presence}, {frequency}, {repetition}");
    }
}
