//! The layout of log-probs: parallel arrays, one entry per position.

use tonic::Code;
use vllm_proto::candidate_token_info::TokenInfo;
use vllm_proto::{CandidateTokenInfo, CandidateTokens, GenerateRequest, PromptInfo};

use crate::ask::{Ask, all, chosen, greedy, prompt, top};
use crate::reply::{Reply, near};
use crate::target::Target;

const BUDGET: u32 = 5;

fn scored(candidates: impl Into<Option<CandidateTokens>>) -> GenerateRequest {
    greedy(&prompt(40, 1), BUDGET).with(|request| {
        request.response().output_logprobs = true;
        request.response().output_candidates = candidates.into();
    })
}

fn scored_prompt(ids: &[u32], candidates: impl Into<Option<CandidateTokens>>) -> GenerateRequest {
    greedy(ids, 2).with(|request| {
        request.response().prompt_logprobs = true;
        request.response().prompt_candidates = candidates.into();
    })
}

/// Every row holds `n` candidates whose rank is their position.
fn check_rows(rows: &[CandidateTokenInfo], n: usize) {
    for (at, row) in rows.iter().enumerate() {
        let ranks: Vec<u32> = row.tokens.iter().map(|candidate| candidate.rank).collect();
        assert_eq!(ranks, (1..=n as u32).collect::<Vec<_>>(), "ranks of position {at}");
    }
}

fn falling(tokens: &[TokenInfo]) -> bool {
    tokens.windows(2).all(|pair| pair[0].logprob >= pair[1].logprob)
}

async fn check_layout(target: &Target, candidates: impl Into<Option<CandidateTokens>>, n: usize) -> Reply {
    let reply = target.both(&scored(candidates)).await;
    let rows = BUDGET as usize;
    assert_eq!((reply.output.logprobs.len(), reply.output.ranks.len()), (rows, rows), "log-probs and ranks");
    assert_eq!(reply.output.candidate_tokens.len(), rows, "a candidate list per position, empty or not");
    assert!(reply.output.logprobs.iter().all(|logprob| *logprob <= 0.0), "{:?}", reply.output.logprobs);
    assert!(reply.output.ranks.iter().all(|rank| *rank >= 1), "ranks count from 1");
    check_rows(&reply.output.candidate_tokens, n);
    reply
}

pub(crate) async fn without_candidates_each_position_has_an_empty_list(target: &Target) {
    for candidates in
        [None, Some(top(0)), Some(chosen(&[])), Some(all(false)), Some(CandidateTokens { select: None })]
    {
        check_layout(target, candidates, 0).await;
    }
}

pub(crate) async fn the_top_n_come_in_order_with_their_position_as_rank(target: &Target) {
    for n in [1, 3, 20] {
        let reply = check_layout(target, top(n), n as usize).await;
        for row in &reply.output.candidate_tokens {
            assert!(falling(&row.tokens), "candidates fall: {row:?}");
        }
    }
}

pub(crate) async fn chosen_ids_come_as_asked_and_ranked_by_position(target: &Target) {
    let asked = [7, 5, 200];
    let reply = check_layout(target, chosen(&asked), asked.len()).await;
    for row in &reply.output.candidate_tokens {
        let ids: Vec<u32> = row.tokens.iter().map(|candidate| candidate.id).collect();
        assert_eq!(ids, asked, "in the order of the request, whatever their probability");
    }
}

pub(crate) async fn a_selector_alone_asks_for_nothing(target: &Target) {
    let request = greedy(&prompt(40, 1), BUDGET).with(|request| {
        request.response().output_candidates = Some(top(3));
        request.response().prompt_candidates = Some(chosen(&[5]));
    });
    let reply = target.both(&request).await;
    let rows = (reply.output.logprobs.len(), reply.output.ranks.len(), reply.output.candidate_tokens.len());
    assert_eq!(rows, (0, 0, 0), "without output_logprobs the selector is not read");
    assert!(reply.prompt.logprobs.is_empty(), "nor is the prompt's");
}

pub(crate) async fn the_cap_counts_and_chosen_ids_do_not(target: &Target) {
    let many: Vec<u32> = (0..129).collect();
    check_layout(target, chosen(&many[..128]), 128).await;
    let beyond = target.vocabulary().rows;
    for (what, candidates) in [
        ("21 of at most 20", top(21)),
        ("the whole vocabulary", all(true)),
        ("129 chosen ids of at most 128", chosen(&many)),
        ("an id outside the vocabulary", chosen(&[5, beyond])),
    ] {
        assert_eq!(target.refusal(scored(candidates.clone())).await, Ok(Code::InvalidArgument), "{what}");
        let prompt = scored_prompt(&prompt(5, 1), candidates);
        assert_eq!(target.refusal(prompt).await, Ok(Code::InvalidArgument), "{what}, for the prompt");
    }
}

pub(crate) async fn a_greedy_token_is_its_own_first_candidate(target: &Target) {
    let reply = target.unary(scored(top(2))).await.unwrap();
    assert_eq!(reply.output.ranks, [1; BUDGET as usize]);
    for (at, row) in reply.output.candidate_tokens.iter().enumerate() {
        assert_eq!(row.tokens[0].id, reply.tokens()[at], "the sampled token is repeated, position {at}");
        near(&[row.tokens[0].logprob], &[reply.output.logprobs[at]]);
    }
}

pub(crate) async fn a_sampled_token_has_its_genuine_rank(target: &Target) {
    let sampled = greedy(&prompt(40, 1), 16).with(|request| {
        request.temperature = Some(1.5);
        (request.sampling().seed, request.sampling().top_k) = (Some(11), Some(0));
        request.sampling().top_p = Some(1.0);
        request.response().output_logprobs = true;
        request.response().output_candidates = Some(top(20));
    });
    let reply = target.both(&sampled).await;
    let best = 20;
    assert!(reply.output.ranks.iter().any(|rank| *rank > 1), "ranks {:?}", reply.output.ranks);
    for (at, row) in reply.output.candidate_tokens.iter().enumerate() {
        let (token, rank) = (reply.tokens()[at], reply.output.ranks[at]);
        let place = row.tokens.iter().find(|candidate| candidate.id == token).map(|candidate| candidate.rank);
        // Equal log-probs may stand in either order.
        assert_eq!(place.is_some(), rank <= best, "rank {rank} at position {at}: listed as {place:?}");
    }
}

pub(crate) async fn prompt_positions_begin_with_a_filler(target: &Target) {
    for (candidates, n) in [(None, 0), (Some(top(0)), 0), (Some(all(false)), 0), (Some(top(2)), 2)] {
        let ids = prompt(9, 1);
        let info = target.both(&scored_prompt(&ids, candidates)).await.prompt;
        assert_eq!((info.logprobs.len(), info.ranks.len(), info.candidate_tokens.len()), (9, 9, 9));
        assert_eq!((info.logprobs[0], info.ranks[0]), (0.0, 0), "position 0 is a filler");
        assert_eq!(info.candidate_tokens[0].tokens, [], "without candidates");
        check_rows(&info.candidate_tokens[1..], n);
        assert!(info.ranks[1..].iter().all(|rank| *rank >= 1), "ranks {:?}", info.ranks);
        assert!(info.candidate_tokens.iter().all(|row| falling(&row.tokens)), "candidates fall");
    }
}

pub(crate) async fn prompt_logprobs_come_with_the_first_message(target: &Target) {
    let opened = target.inference().generate_stream(scored_prompt(&prompt(9, 1), top(2))).await;
    let first = opened.unwrap().into_inner().message().await.unwrap().expect("a first message");
    assert_eq!(first.prompt_info.expect("the prompt").logprobs.len(), 9);
    assert_eq!(first.outputs, None);
}

pub(crate) async fn a_prompt_of_one_token_has_only_the_filler(target: &Target) {
    let info = target.both(&scored_prompt(&[65], top(2))).await.prompt;
    let candidate_tokens = vec![CandidateTokenInfo::default()];
    let (num_prompt_tokens, token_ids, logprobs, ranks) = (1, Vec::new(), vec![0.0], vec![0]);
    assert_eq!(info, PromptInfo { num_prompt_tokens, token_ids, logprobs, ranks, candidate_tokens });
}

pub(crate) async fn prompt_candidates_cannot_be_chosen_by_id(target: &Target) {
    let found = target.refusal(scored_prompt(&prompt(9, 1), chosen(&[5]))).await;
    assert_eq!(found, Ok(Code::InvalidArgument));
}

pub(crate) async fn scoring_the_output_repeats_its_logprobs(target: &Target) {
    let ids = prompt(20, 1);
    let scored = greedy(&ids, 8).with(|request| request.response().output_logprobs = true);
    let generated = target.unary(scored).await.unwrap();
    let joined = [ids.as_slice(), generated.tokens()].concat();
    let info = target.unary(scored_prompt(&joined, None)).await.unwrap().prompt;
    near(&info.logprobs[20..], &generated.output.logprobs);
    assert_eq!(info.ranks[20..], [1; 8], "greedy tokens are first everywhere");
}

pub(crate) async fn scoring_a_prompt_does_not_read_the_cache(target: &Target) {
    let ids = prompt(3 * target.facts.block, 6);
    target.unary(greedy(&ids, 1)).await.unwrap();
    let scored = target.unary(scored_prompt(&ids, None)).await.unwrap();
    assert_eq!(scored.cached(), 0, "every position must be computed to be scored");
}
