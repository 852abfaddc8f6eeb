//! When generation ends, and what of the end is seen.

use vllm_proto::GenerateRequest;

use crate::ask::{Ask, greedy, letters, prompt};
use crate::target::Target;

/// A greedy request on which the model may end.
fn ending(budget: u32, forced: u32) -> GenerateRequest {
    greedy(&prompt(40, 1), budget).with(|request| {
        request.decoding().logit_bias.insert(forced, 100.0);
        request.stopping().ignore_eos = false;
    })
}

pub(crate) async fn the_budget_is_exact(target: &Target) {
    for budget in [1, 2, 17] {
        let reply = target.both(&greedy(&prompt(40, 1), budget)).await;
        assert_eq!((reply.tokens().len(), reply.end().as_str()), (budget as usize, "length"));
    }
}

async fn fills_the_context(target: &Target, budget: u32) {
    let nearly_full = prompt(target.facts.context - 8, 1);
    let reply = target.both(&greedy(&nearly_full, budget)).await;
    assert_eq!((reply.tokens().len(), reply.end().as_str()), (8, "length"), "8 are left of the context");
}

pub(crate) async fn the_budget_is_clamped_to_the_context(target: &Target) {
    fills_the_context(target, 100).await;
}

pub(crate) async fn without_a_budget_the_context_is_filled(target: &Target) {
    fills_the_context(target, 0).await;
}

/// A request that stops on its third greedy token, and the tokens until then.
async fn stopping_on_the_third(target: &Target) -> (GenerateRequest, Vec<u32>, String) {
    let plain = greedy(&prompt(40, 1), 8);
    let base = target.unary(plain.clone()).await.unwrap();
    let until = base.tokens().iter().position(|token| *token == base.tokens()[2]).expect("it is there") + 1;
    let tokens = base.tokens()[..until].to_vec();
    let before = target.unary(plain.clone().with(|r| r.stopping().max_new_tokens = until as u32 - 1));
    let text = if until > 1 { before.await.unwrap().output.text } else { String::new() };
    (plain.with(|request| request.stopping().stop_token_ids = vec![tokens[until - 1]]), tokens, text)
}

pub(crate) async fn a_stop_token_is_counted_but_has_no_text(target: &Target) {
    let (request, tokens, text) = stopping_on_the_third(target).await;
    let reply = target.both(&request).await;
    let stop = tokens.last().expect("at least one");
    assert_eq!((reply.tokens(), reply.end()), (tokens.as_slice(), format!("stop on token {stop}")));
    assert_eq!(reply.text().trim_end_matches('\u{fffd}'), text.trim_end_matches('\u{fffd}'));
}

pub(crate) async fn a_kept_stop_token_has_text(target: &Target) {
    let (request, tokens, text) = stopping_on_the_third(target).await;
    let reply = target.both(&request.with(|r| r.stopping().include_stop_strings = true)).await;
    assert_eq!(reply.tokens(), tokens);
    let text = text.trim_end_matches('\u{fffd}');
    assert!(reply.text().starts_with(text) && reply.text().len() > text.len(), "{:?}", reply.text());
}

async fn check_end(target: &Target, eos: u32, kind: &str) {
    let reply = target.both(&ending(8, eos)).await;
    assert_eq!(
        (reply.tokens(), reply.text(), reply.end()),
        (&[eos][..], "", format!("stop on {kind} {eos}"))
    );
}

pub(crate) async fn the_primary_end_is_named(target: &Target) {
    check_end(target, target.vocabulary().eos, "eos").await;
}

pub(crate) async fn the_secondary_end_is_a_stop_token(target: &Target) {
    check_end(target, target.vocabulary().secondary_eos, "token").await;
}

pub(crate) async fn an_ignored_end_is_a_token_like_others(target: &Target) {
    let vocabulary = target.vocabulary();
    for eos in [vocabulary.eos, vocabulary.secondary_eos] {
        let reply = target.both(&ending(4, eos).with(|r| r.stopping().ignore_eos = true)).await;
        assert_eq!((reply.tokens(), reply.end().as_str()), (&[eos; 4][..], "length"));
        let listed = ending(4, eos).with(|request| {
            request.stopping().ignore_eos = true;
            request.stopping().stop_token_ids = vec![eos];
        });
        let reply = target.unary(listed).await.unwrap();
        assert_eq!(reply.end(), format!("stop on token {eos}"), "a listed id stops even so");
    }
}

pub(crate) async fn an_end_waits_for_the_minimum(target: &Target) {
    let eos = target.vocabulary().eos;
    let reply = target.both(&ending(8, eos).with(|r| r.stopping().min_new_tokens = 3)).await;
    let (before, last) = reply.tokens().split_at(3);
    assert!(!before.contains(&eos), "masked until the minimum: {before:?}");
    assert_eq!((last, reply.end()), (&[eos][..], format!("stop on eos {eos}")));
}

pub(crate) async fn a_kept_special_end_has_text(target: &Target) {
    let eos = target.vocabulary().eos;
    let kept = ending(8, eos).with(|request| {
        request.stopping().include_stop_strings = true;
        request.response().skip_special_tokens = Some(false);
    });
    let reply = target.both(&kept).await;
    assert!(!reply.text().is_empty(), "kept, and special tokens are shown");
    assert_eq!(reply.end(), format!("stop on eos {eos}"));
}

/// Letters, and two of them that stop: the text before, and the tokens up to and including them.
async fn two_letters(target: &Target) -> (String, String, usize) {
    let base = target.unary(letters(12)).await.unwrap();
    assert_eq!(base.text().len(), 12, "one letter per token");
    let stop = base.text()[4..6].to_owned();
    let at = base.text().find(&stop).expect("it was cut out of the text");
    (base.text()[..at].to_owned(), stop, at + 2)
}

/// The letters stop on a string: what of the text is left, and how many tokens there are.
async fn check_stop(
    target: &Target,
    edit: impl FnOnce(&mut GenerateRequest),
    left: impl FnOnce(&str, &str) -> String,
) {
    let (before, stop, tokens) = two_letters(target).await;
    let strings = vec!["never".to_owned(), stop.clone()];
    let request = letters(12).with(|request| request.stopping().stop_strings = strings).with(edit);
    let reply = target.both(&request).await;
    let found = (reply.text(), reply.tokens().len(), reply.end());
    assert_eq!(found, (left(&before, &stop).as_str(), tokens, format!("stop on text {stop}")));
}

pub(crate) async fn a_stop_string_cuts_the_text_but_not_the_tokens(target: &Target) {
    check_stop(target, |_| {}, |before, _| before.to_owned()).await;
}

pub(crate) async fn a_kept_stop_string_ends_the_text(target: &Target) {
    let kept = |request: &mut GenerateRequest| request.stopping().include_stop_strings = true;
    check_stop(target, kept, |before, stop| format!("{before}{stop}")).await;
}

pub(crate) async fn a_stop_string_works_without_text(target: &Target) {
    let untold = |request: &mut GenerateRequest| request.response().output_text = Some(false);
    check_stop(target, untold, |_, _| String::new()).await;
}

pub(crate) async fn text_lags_by_what_could_become_a_stop_string(target: &Target) {
    let whole = target.unary(letters(12)).await.unwrap().output.text;
    let lagging = letters(12).with(|request| request.stopping().stop_strings = vec!["ZZZZ".to_owned()]);
    let mut reading = target.open_stream(lagging).await.unwrap();
    let (mut text, mut tokens) = (String::new(), 0);
    while let Some(output) = reading.next().await.unwrap() {
        text.push_str(&output.text);
        tokens += output.num_tokens as usize;
        let seen = if output.finish_info.is_some() { 12 } else { tokens.saturating_sub(3) };
        assert_eq!(text, whole[..seen], "after {tokens} tokens");
    }
}

pub(crate) async fn many_stop_strings_are_accepted(target: &Target) {
    let many = (0..129).map(|number| format!("stop {number}")).collect();
    let request = letters(6).with(|request| request.stopping().stop_strings = many);
    assert_eq!(target.both(&request).await.end(), "length");
}

pub(crate) async fn a_thinking_budget_is_accepted(target: &Target) {
    let plain = target.unary(greedy(&prompt(40, 1), 4)).await.unwrap();
    for budget in [-1, 0, 100] {
        let thinking = greedy(&prompt(40, 1), 4).with(|r| r.stopping().thinking_token_budget = Some(budget));
        let reply = target.unary(thinking).await.unwrap();
        assert_eq!(reply.tokens(), plain.tokens(), "{budget}: the model has no thinking to close");
    }
}
