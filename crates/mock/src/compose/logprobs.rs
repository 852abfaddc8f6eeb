//! Log-probs in vLLM's layout: parallel lists, one entry per position, candidates beside them.

use tito_engine_sim::{Candidate, Context, Model, StepToken};
use vllm_proto::candidate_token_info::TokenInfo;
use vllm_proto::{CandidateTokenInfo, PromptInfo, SequenceOutput};

use crate::validate::Candidates;

/// Scores every prompt position. The first has nothing before it and gets a filler.
pub(super) fn of_prompt(
    model: &Model,
    adapter: Option<u64>,
    prompt: &[u32],
    candidates: &Candidates,
    info: &mut PromptInfo,
) {
    let Some((first, rest)) = prompt.split_first() else { return };
    info.logprobs.push(0.0);
    info.ranks.push(0);
    info.candidate_tokens.push(CandidateTokenInfo::default());
    let mut context = model.start(adapter).push(*first);
    for &id in rest {
        let scored = model.candidate(context, id);
        info.logprobs.push(scored.logprob);
        info.ranks.push(scored.rank);
        info.candidate_tokens.push(list(model, context, candidates));
        context = context.push(id);
    }
}

/// Scores one output token.
pub(super) fn of_output(
    model: &Model,
    token: StepToken,
    candidates: &Candidates,
    output: &mut SequenceOutput,
) {
    let sampled = model.candidate(token.context, token.id);
    output.logprobs.push(sampled.logprob);
    output.ranks.push(sampled.rank);
    output.candidate_tokens.push(list(model, token.context, candidates));
}

fn list(model: &Model, context: Context, candidates: &Candidates) -> CandidateTokenInfo {
    let found: Vec<Candidate> = match candidates {
        Candidates::Sampled => Vec::new(),
        Candidates::Top(count) => model.candidates(context, *count),
        Candidates::All => model.candidates(context, model.config().vocabulary_rows),
        Candidates::Ids(ids) => ids.iter().map(|&id| model.candidate(context, id)).collect(),
    };
    // The rank of a candidate is its place in the list, also where that means nothing.
    let entry = |(place, found): (usize, &Candidate)| TokenInfo {
        id: found.id,
        logprob: found.logprob,
        rank: place as u32 + 1,
    };
    CandidateTokenInfo { tokens: found.iter().enumerate().map(entry).collect() }
}
