//! Log-probs in vLLM's layout: parallel lists, one entry per position, candidates beside them.

use tito_engine_sim::{Candidate, Context, Model, StepToken, hash_bytes};
use vllm_proto::candidate_token_info::TokenInfo;
use vllm_proto::{CandidateTokenInfo, PromptInfo, SequenceOutput};

use crate::validate::{Candidates, Plan};

/// Scores every prompt position. The first has nothing before it and gets a filler.
pub(super) fn of_prompt(model: &Model, plan: &Plan, candidates: &Candidates, info: &mut PromptInfo) {
    let mut context = model.start(plan.adapter);
    let mut media = plan.origin.media.iter().peekable();
    for (position, &id) in plan.prompt.iter().enumerate() {
        // Media are seen where they start, as in the simulation.
        while let Some(span) = media.next_if(|span| span.offset as usize == position) {
            context = context.push_content(hash_bytes(span.identifier.as_bytes()));
        }
        if position == 0 {
            info.logprobs.push(0.0);
            info.ranks.push(0);
            info.candidate_tokens.push(CandidateTokenInfo::default());
            context = context.push(id);
            continue;
        }
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
