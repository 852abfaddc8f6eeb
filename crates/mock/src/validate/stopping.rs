//! Lengths, stop ids and stop strings.

use vllm_proto::StoppingCriteria;

use super::{Checked, Limits, check_ids, invalid};

#[derive(Debug, Default)]
pub(super) struct Stopping {
    /// Absent means the default.
    pub(super) asked_tokens: Option<u32>,
    pub(super) min_tokens: u32,
    pub(super) stop_ids: Vec<u32>,
    pub(super) stop_strings: Vec<String>,
    pub(super) include: bool,
    pub(super) ignore_eos: bool,
}

pub(super) fn check(
    request_id: &str,
    stopping: Option<&StoppingCriteria>,
    limits: &Limits<'_>,
) -> Checked<Stopping> {
    let secondary = &limits.vocabulary.secondary_eos_ids;
    let Some(stopping) = stopping else {
        return Ok(Stopping { stop_ids: secondary.clone(), ..Stopping::default() });
    };
    let StoppingCriteria {
        max_new_tokens,
        min_new_tokens,
        stop_token_ids,
        stop_strings,
        include_stop_strings,
        ignore_eos,
        thinking_token_budget,
    } = stopping;
    check_ids("stop_token_ids", stop_token_ids, limits.vocabulary.rows)?;
    if stop_strings.iter().any(String::is_empty) {
        return Err(invalid(format!("request `{request_id}` has an empty stop string")));
    }
    if thinking_token_budget.is_some_and(|budget| budget < -1) {
        return Err(invalid("thinking_token_budget must be -1 for unlimited, or not negative"));
    }
    let mut stop_ids = stop_token_ids.clone();
    if !ignore_eos {
        stop_ids.extend_from_slice(secondary);
    }
    Ok(Stopping {
        asked_tokens: (*max_new_tokens > 0).then_some(*max_new_tokens),
        min_tokens: *min_new_tokens,
        stop_ids,
        stop_strings: stop_strings.clone(),
        include: *include_stop_strings,
        ignore_eos: *ignore_eos,
    })
}
