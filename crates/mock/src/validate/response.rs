//! What the reply carries.

use vllm_proto::candidate_tokens::Select;
use vllm_proto::{CandidateTokens, ResponseOptions};

use super::{Checked, Limits, check_ids, invalid};

/// Most ids that an id selector may list.
const SELECTED_IDS_MAX: usize = 128;

/// Which candidates accompany a log-prob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Candidates {
    /// None: the token itself only.
    Sampled,
    /// The best so many.
    Top(u32),
    /// The whole vocabulary.
    All,
    /// These, in this order.
    Ids(Vec<u32>),
}

/// What a reply carries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per field of the wire message")]
pub(crate) struct ResponsePlan {
    pub(crate) prompt_ids: bool,
    pub(crate) prompt_logprobs: Option<Candidates>,
    pub(crate) text: bool,
    pub(crate) ids: bool,
    pub(crate) logprobs: Option<Candidates>,
    pub(crate) skip_special: bool,
}

pub(super) fn check(options: Option<&ResponseOptions>, limits: &Limits<'_>) -> Checked<ResponsePlan> {
    let default = ResponseOptions::default();
    let ResponseOptions {
        prompt_token_ids,
        prompt_logprobs,
        prompt_candidates,
        output_text,
        output_token_ids,
        output_logprobs,
        output_candidates,
        skip_special_tokens,
    } = options.unwrap_or(&default);
    // A selector without its switch is not even read.
    let prompt_logprobs = match prompt_logprobs {
        false => None,
        true => Some(prompt_selector(prompt_candidates.as_ref(), limits)?),
    };
    let logprobs = match output_logprobs {
        false => None,
        true => Some(selector(output_candidates.as_ref(), limits)?),
    };
    Ok(ResponsePlan {
        prompt_ids: *prompt_token_ids,
        prompt_logprobs,
        text: output_text.unwrap_or(true),
        ids: *output_token_ids,
        logprobs,
        skip_special: skip_special_tokens.unwrap_or(true),
    })
}

fn prompt_selector(candidates: Option<&CandidateTokens>, limits: &Limits<'_>) -> Checked<Candidates> {
    if let Some(CandidateTokens { select: Some(Select::TokenIds(_)) }) = candidates {
        return Err(invalid("prompt candidates cannot be selected by id"));
    }
    selector(candidates, limits)
}

fn selector(candidates: Option<&CandidateTokens>, limits: &Limits<'_>) -> Checked<Candidates> {
    match candidates.and_then(|candidates| candidates.select.as_ref()) {
        None | Some(Select::All(false) | Select::TopN(0)) => Ok(Candidates::Sampled),
        Some(Select::TopN(count)) => {
            check_cap(*count, limits)?;
            Ok(Candidates::Top(*count))
        }
        Some(Select::All(true)) => {
            check_cap(limits.vocabulary.rows, limits)?;
            Ok(Candidates::All)
        }
        Some(Select::TokenIds(list)) if list.ids.is_empty() => Ok(Candidates::Sampled),
        Some(Select::TokenIds(list)) => {
            if list.ids.len() > SELECTED_IDS_MAX {
                let count = list.ids.len();
                return Err(invalid(format!(
                    "{count} candidate ids, at most {SELECTED_IDS_MAX} are allowed"
                )));
            }
            check_ids("the candidates", &list.ids, limits.vocabulary.rows)?;
            Ok(Candidates::Ids(list.ids.clone()))
        }
    }
}

fn check_cap(count: u32, limits: &Limits<'_>) -> Checked<()> {
    match u32::try_from(limits.max_logprobs) {
        Ok(cap) if count > cap => Err(invalid(format!("{count} candidates, at most {cap} are allowed"))),
        // -1 lifts the cap.
        Ok(_) | Err(_) => Ok(()),
    }
}
