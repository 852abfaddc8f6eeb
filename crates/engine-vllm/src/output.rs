//! `vllm.GenerateResponse` → deltas, with every count checked on the way.

use std::sync::Arc;

use tito_types::{
    Candidate, Delta, EngineError, Extras, Finish, FinishReason, GenerateRequest, PromptOutput, StopCause,
    TokenId, TokenLogprob,
};
use vllm_proto::finish_info::{FinishReason as WireReason, StopReason};
use vllm_proto::{CandidateTokenInfo, FinishInfo, GenerateResponse, PromptInfo, SequenceOutput};

use crate::convert::json::json_of;

/// Reads the messages of one call in order.
#[derive(Debug)]
pub(crate) struct Reader {
    prompt_token_ids: Arc<[TokenId]>,
    wants_logprobs: bool,
    wants_prompt_logprobs: bool,
    /// Output tokens so far.
    tokens: u32,
    /// Rows so far; vLLM 0.32 sends them all with the last message.
    sampling_mask: Vec<Vec<TokenId>>,
    /// Read, and waiting for the first output to ride on.
    prompt: Option<Box<PromptOutput>>,
    started: bool,
}

impl Reader {
    pub(crate) fn new(request: &GenerateRequest) -> Self {
        Self {
            prompt_token_ids: Arc::clone(&request.prompt),
            wants_logprobs: request.outputs.logprobs.is_some(),
            wants_prompt_logprobs: request.outputs.prompt_logprobs.is_some(),
            tokens: 0,
            sampling_mask: Vec::new(),
            prompt: None,
            started: false,
        }
    }

    /// The next message as a delta; `None` for one that holds prompt information alone.
    pub(crate) fn read(&mut self, message: GenerateResponse) -> Result<Option<Delta>, EngineError> {
        let GenerateResponse { prompt_info, outputs } = message;
        match prompt_info {
            Some(_) if self.started => return Err(broken("prompt information twice")),
            Some(info) => self.prompt = Some(Box::new(self.prompt_of(info)?)),
            None if !self.started => return Err(broken("output before prompt information")),
            None => {}
        }
        self.started = true;
        outputs.map(|outputs| self.delta_of(outputs)).transpose()
    }

    fn prompt_of(&self, info: PromptInfo) -> Result<PromptOutput, EngineError> {
        let PromptInfo { num_prompt_tokens, token_ids, logprobs, ranks, candidate_tokens } = info;
        let logprobs = if self.wants_prompt_logprobs {
            let sent: &[TokenId] = &self.prompt_token_ids;
            let scored = if token_ids.is_empty() { sent } else { &token_ids };
            logprobs_of(scored, &logprobs, &ranks, candidate_tokens)?
        } else {
            Vec::new()
        };
        Ok(PromptOutput { prompt_tokens: num_prompt_tokens, token_ids, logprobs })
    }

    fn delta_of(&mut self, outputs: SequenceOutput) -> Result<Delta, EngineError> {
        let SequenceOutput {
            index,
            text,
            num_tokens,
            token_ids,
            logprobs,
            ranks,
            candidate_tokens,
            finish_info,
            sampling_mask,
        } = outputs;
        if index != 0 {
            return Err(broken("a sequence index other than 0"));
        }
        if token_ids.len() != num_tokens as usize {
            return Err(broken("a token count that differs from the ids"));
        }
        self.tokens = self.tokens.checked_add(num_tokens).ok_or_else(|| broken("too many tokens"))?;
        let logprobs = if self.wants_logprobs {
            logprobs_of(&token_ids, &logprobs, &ranks, candidate_tokens)?
        } else {
            Vec::new()
        };
        self.sampling_mask.extend(sampling_mask.into_iter().map(|row| row.ids));
        let finish = finish_info.map(|info| self.finish_of(info)).transpose()?;
        Ok(Delta {
            index,
            prompt: self.prompt.take(),
            token_ids,
            text,
            logprobs,
            finish: finish.map(Box::new),
        })
    }

    fn finish_of(&mut self, info: FinishInfo) -> Result<Finish, EngineError> {
        let reason = match info.finish_reason() {
            WireReason::NotFinished => return Err(broken("a finish without a reason")),
            WireReason::Length => FinishReason::Length,
            WireReason::Stop => FinishReason::Stop,
            WireReason::Aborted => FinishReason::Abort,
        };
        let FinishInfo {
            num_output_tokens,
            finish_reason: _,
            stop_reason,
            kv_transfer_params,
            ec_transfer_params,
            num_cached_tokens,
        } = info;
        if num_output_tokens != self.tokens {
            return Err(broken("a final token count that differs from the tokens sent"));
        }
        let mask = std::mem::take(&mut self.sampling_mask);
        if !mask.is_empty() && mask.len() != self.tokens as usize {
            return Err(broken("a sampling mask whose rows differ from the tokens"));
        }
        Ok(Finish {
            reason,
            stop: stop_reason.map(|stop| match stop {
                StopReason::StopTokenId(id) => StopCause::Token(id),
                StopReason::EosTokenId(id) => StopCause::Eos(id),
                StopReason::StopString(text) => StopCause::Text(text),
            }),
            output_tokens: num_output_tokens,
            cached_tokens: num_cached_tokens,
            extras: Extras {
                kv_transfer_params: kv_transfer_params.map(json_of).transpose()?,
                ec_transfer_params: ec_transfer_params.map(json_of).transpose()?,
                sampling_mask: (!mask.is_empty()).then_some(mask),
                routed_experts: None,        // vLLM 0.32 returns none over gRPC
                weight_versions: Vec::new(), // nor these
            },
        })
    }
}

/// Joins the parallel arrays of vLLM's layout; each must have one entry per token.
fn logprobs_of(
    tokens: &[u32],
    logprobs: &[f32],
    ranks: &[u32],
    candidates: Vec<CandidateTokenInfo>,
) -> Result<Vec<TokenLogprob>, EngineError> {
    let rows = tokens.len();
    let complete = logprobs.len() == rows && ranks.len() == rows;
    // A request for the sampled token alone may leave the candidate array out.
    if !complete || !(candidates.len() == rows || candidates.is_empty()) {
        return Err(broken("log-probs whose rows differ from the tokens"));
    }
    let mut candidates = candidates.into_iter();
    let rows = tokens.iter().zip(logprobs).zip(ranks);
    rows.map(|((&token, &logprob), &rank)| {
        let row = candidates.next().unwrap_or_default();
        let candidates = row.tokens.into_iter().map(|candidate| {
            let logprob = number(candidate.logprob)?;
            Ok(Candidate { token: candidate.id, logprob, rank: candidate.rank })
        });
        let candidates = candidates.collect::<Result<_, EngineError>>()?;
        Ok(TokenLogprob { token, logprob: number(logprob)?, rank, candidates })
    })
    .collect()
}

fn number(logprob: f32) -> Result<f32, EngineError> {
    if logprob.is_nan() { Err(broken("a log-prob that is not a number")) } else { Ok(logprob) }
}

fn broken(what: &str) -> EngineError {
    EngineError::Protocol(what.to_owned())
}

#[cfg(test)]
pub(crate) mod tests;
