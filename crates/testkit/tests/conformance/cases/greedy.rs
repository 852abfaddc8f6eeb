//! The shape of replies, on greedy requests.

use tito_test_support::wait::within;
use vllm_proto::generate_request::Prompt;
use vllm_proto::{GenerateRequest, GenerateResponse, PromptInfo};

use crate::ask::{Ask, greedy, prompt};
use crate::target::Target;

pub(crate) async fn a_unary_reply_is_one_complete_message(target: &Target) {
    let reply = target.unary(greedy(&prompt(40, 1), 6)).await.unwrap();
    assert_eq!(reply.prompt, PromptInfo { num_prompt_tokens: 40, ..Default::default() });
    assert_eq!((reply.output.num_tokens, reply.end().as_str()), (6, "length"));
    assert!(!reply.text().is_empty(), "text comes unless it is turned off");
    assert!(reply.output.logprobs.is_empty() && reply.output.candidate_tokens.is_empty(), "nobody asked");
    let terminal = (reply.finish.kv_transfer_params, reply.finish.ec_transfer_params);
    assert_eq!(terminal, (None, None), "no transfer was asked for");
}

/// Reads the messages themselves: the order of their parts is the contract here.
pub(crate) async fn a_stream_begins_with_the_prompt_alone_and_ends_with_the_finish(target: &Target) {
    let opened = target.inference().generate_stream(greedy(&prompt(40, 1), 6)).await;
    let mut messages = opened.unwrap().into_inner();
    let mut all: Vec<GenerateResponse> = Vec::new();
    while let Some(message) = within("next message", messages.message()).await.unwrap() {
        all.push(message);
    }
    let alone = PromptInfo { num_prompt_tokens: 40, ..Default::default() };
    assert_eq!(all[0], GenerateResponse { prompt_info: Some(alone), outputs: None });
    let outputs: Vec<_> = all[1..].iter().map(|message| (&message.prompt_info, &message.outputs)).collect();
    for (at, (info, output)) in outputs.iter().enumerate() {
        assert_eq!(**info, None, "message {} repeats the prompt", at + 1);
        let output = output.as_ref().expect("a message holds output");
        let last = at + 1 == outputs.len();
        assert_eq!(output.finish_info.is_some(), last, "the finish is in the last message");
    }
}

pub(crate) async fn the_same_request_gives_the_same_tokens(target: &Target) {
    let first = target.unary(greedy(&prompt(70, 2), 16)).await.unwrap();
    for _ in 0..3 {
        let again = target.unary(greedy(&prompt(70, 2), 16)).await.unwrap();
        assert_eq!((again.tokens(), again.text()), (first.tokens(), first.text()));
    }
}

pub(crate) async fn a_stream_adds_up_to_the_unary_reply(target: &Target) {
    let reply = target.both(&greedy(&prompt(70, 2), 24)).await;
    assert_eq!(reply.output.num_tokens, 24);
}

pub(crate) async fn prompt_and_delivered_tokens_continue_exactly(target: &Target) {
    let start = prompt(50, 4);
    let whole = target.unary(greedy(&start, 24)).await.unwrap();
    for delivered in [1, 7, 12, 23] {
        let (seen, expected) = whole.tokens().split_at(delivered);
        let joined = [start.as_slice(), seen].concat();
        let rest = target.unary(greedy(&joined, 24 - delivered as u32)).await.unwrap();
        assert_eq!(rest.tokens(), expected, "after {delivered} delivered tokens");
    }
}

pub(crate) async fn nothing_but_a_prompt_and_a_budget_is_greedy_text(target: &Target) {
    let expected = target.unary(greedy(&prompt(40, 1), 6)).await.unwrap();
    let mut bare = GenerateRequest { prompt: greedy(&prompt(40, 1), 6).prompt, ..Default::default() };
    bare.stopping().max_new_tokens = 6;
    bare.stopping().ignore_eos = true;
    let reply = target.both(&bare).await;
    assert_eq!(reply.text(), expected.text(), "an absent temperature is greedy");
    assert_eq!((reply.output.num_tokens, reply.tokens()), (6, &[][..]), "tokens are counted, ids not sent");
}

pub(crate) async fn text_can_be_left_out(target: &Target) {
    let without = greedy(&prompt(40, 1), 6).with(|r| r.response().output_text = Some(false));
    let reply = target.both(&without).await;
    assert_eq!((reply.text(), reply.tokens().len()), ("", 6));
}

pub(crate) async fn the_prompt_is_echoed_when_asked(target: &Target) {
    let reply = target.both(&greedy(&prompt(40, 1), 2).with(|r| r.response().prompt_token_ids = true)).await;
    let expected = PromptInfo { num_prompt_tokens: 40, token_ids: prompt(40, 1), ..Default::default() };
    assert_eq!(reply.prompt, expected);
}

pub(crate) async fn a_text_prompt_equals_its_token_ids(target: &Target) {
    let text = "The quick brown fox jumps over the lazy dog.";
    let asked = greedy(&[], 6).with(|request| {
        request.prompt = Some(Prompt::Text(text.to_owned()));
        request.response().prompt_token_ids = true;
    });
    let by_text = target.both(&asked).await;
    assert_eq!(by_text.prompt.token_ids.len(), by_text.prompt.num_prompt_tokens as usize);
    let by_ids = target.unary(greedy(&by_text.prompt.token_ids, 6)).await.unwrap();
    assert_eq!(by_ids.tokens(), by_text.tokens());
}

pub(crate) async fn text_after_half_a_character_begins_with_the_prompt(target: &Target) {
    let reply = target.both(&greedy(&[65, 66, 200], 4)).await;
    let rest = reply.text().strip_prefix("AB\u{fffd}");
    assert!(rest.is_some_and(|rest| !rest.is_empty()), "{:?}", reply.text());
    let whole = target.both(&greedy(&[65, 200, 66], 4)).await.output.text;
    assert!(!whole.starts_with("A\u{fffd}"), "a prompt that ends with a character keeps it: {whole:?}");
}

pub(crate) async fn truncation_keeps_the_last_tokens(target: &Target) {
    let whole = prompt(40, 1);
    let cut = |budget, tokens| {
        greedy(&whole, budget).with(|request| {
            request.truncate_prompt_tokens = tokens;
            request.response().prompt_token_ids = true;
        })
    };
    let truncated = target.both(&cut(4, 5)).await;
    assert_eq!(truncated.prompt.token_ids, whole[35..]);
    let short = target.unary(greedy(&whole[35..], 4)).await.unwrap();
    assert_eq!(truncated.tokens(), short.tokens());
    assert_eq!(target.unary(cut(2, 300)).await.unwrap().prompt.token_ids, whole, "nothing to cut");
}
