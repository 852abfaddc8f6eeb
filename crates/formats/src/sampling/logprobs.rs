use tito_types::Candidates;

use super::LogprobIds;
use crate::Refusal;
use crate::object::{Member, Object};

/// Most tokens whose log-probs can be chosen by id (vLLM 0.32).
const LOGPROB_TOKEN_IDS_MAX: usize = 128;

/// What is reported of each output token.
pub(super) fn output(object: &Object<'_>, rule: LogprobIds) -> Result<Option<Candidates>, Refusal> {
    let count = object.read("logprobs", count)?;
    let Some(member) = object.get("logprob_token_ids") else {
        return Ok(count.map(candidates));
    };
    let ids = member.token_ids()?;
    if !(1..=LOGPROB_TOKEN_IDS_MAX).contains(&ids.len()) {
        let message = format!("must hold 1 to {LOGPROB_TOKEN_IDS_MAX} token ids, got {}", ids.len());
        return Err(member.refuse(message));
    }
    match (rule, count) {
        (LogprobIds::Alone, None) | (LogprobIds::BesideCount, Some(_)) => Ok(Some(Candidates::Ids(ids))),
        (LogprobIds::Alone, Some(count)) if count == ids.len() as i64 => Ok(Some(Candidates::Ids(ids))),
        (LogprobIds::Alone, Some(count)) => {
            let message = format!("must equal the number of logprob_token_ids, {}; got {count}", ids.len());
            Err(Refusal::invalid(object.path_of("logprobs"), message))
        }
        (LogprobIds::BesideCount, None) => Err(member.refuse("needs logprobs beside it")),
    }
}

/// What is reported of each prompt token.
pub(super) fn prompt(object: &Object<'_>) -> Result<Option<Candidates>, Refusal> {
    Ok(object.read("prompt_logprobs", count)?.map(candidates))
}

fn count(member: Member<'_, '_>) -> Result<i64, Refusal> {
    member.integer(-1, u32::MAX.into())
}

fn candidates(count: i64) -> Candidates {
    u32::try_from(count).map_or(Candidates::All, Candidates::Top)
}
