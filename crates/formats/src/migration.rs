use tito_types::{GenerateRequest, Media};

use crate::NotMigratable;

/// Whether a lost request may continue elsewhere as prompt ‖ delivered tokens without the client being able to tell.
pub(crate) fn admit(requests: &[GenerateRequest]) -> Result<(), NotMigratable> {
    let [request] = requests else { return Err(NotMigratable::SeveralChoices) };
    let GenerateRequest { n, media, sampling, stopping, outputs, kv, .. } = request;
    let set = |penalty: Option<f32>| penalty.is_some_and(|value| value != 0.0);
    // A greedy draw does not use its seed.
    let drawn = sampling.temperature != Some(0.0);
    let hand_off = kv.transfer_params.is_some() || kv.ec_transfer_params.is_some();
    let reasons = [
        (*n > 1, NotMigratable::SeveralChoices),
        (hand_off, NotMigratable::TransferParams),
        (matches!(media, Media::Raw(_)), NotMigratable::RawMedia),
        (outputs.prompt_logprobs.is_some(), NotMigratable::PromptLogprobs),
        (sampling.structured.is_some(), NotMigratable::StructuredOutput),
        (!stopping.stop.is_empty(), NotMigratable::StopStrings),
        (sampling.bad_words_token_ids.iter().any(|word| word.len() > 1), NotMigratable::BadWords),
        (set(sampling.presence_penalty) || set(sampling.frequency_penalty), NotMigratable::Penalties),
        (stopping.thinking_token_budget.is_some_and(|budget| budget >= 0), NotMigratable::ThinkingBudget),
        (sampling.seed.is_some() && drawn, NotMigratable::Seed),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map_or(Ok(()), |(_, reason)| Err(reason))
}
