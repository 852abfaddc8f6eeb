//! From what the engine makes to what vLLM's frontend sends: text, log-probs, stop strings, the end.

use std::sync::Arc;

use tito_engine_sim::{Finish, Sampler, StepToken, StopCause};
use tonic::Status;
use vllm_proto::finish_info::{FinishReason, StopReason};
use vllm_proto::{FinishInfo, PromptInfo, SequenceOutput, TokenIds};

use crate::engine::{Chunk, End};
use crate::instance::Instance;
use crate::knobs::Knobs;
use crate::text::Detokenizer;
use crate::transfer::{Prefilled, Transfer};
use crate::validate::Plan;

mod logprobs;
#[cfg(test)]
mod tests;

/// What a call sends for one chunk.
#[derive(Debug)]
pub(crate) struct Composed {
    pub(crate) output: SequenceOutput,
    /// Whether this is the last one.
    pub(crate) last: bool,
    /// Whether a stop string ended it, so that the engine must be stopped.
    pub(crate) by_stop_string: bool,
}

/// One call's output in the making.
#[derive(Debug)]
pub(crate) struct Composer {
    instance: Arc<Instance>,
    plan: Plan,
    engine_request_id: String,
    rank: u32,
    transfer: Transfer,
    knobs: Option<Box<Knobs>>,
    logprob_fault: Option<(u32, f32)>,
    detokenizer: Detokenizer,
    /// All text, or with no stop strings the text that is not sent yet.
    text: String,
    sent_bytes: usize,
    seen_bytes: usize,
    tokens: u32,
    mask: Option<Mask>,
}

/// The sampling mask so far.
#[derive(Debug)]
struct Mask {
    sampler: Sampler,
    output: Vec<u32>,
    rows: Vec<TokenIds>,
}

/// A call's identity and steering.
#[derive(Debug)]
pub(crate) struct CallFacts {
    pub(crate) engine_request_id: String,
    pub(crate) rank: u32,
    pub(crate) transfer: Transfer,
    pub(crate) knobs: Option<Box<Knobs>>,
    pub(crate) logprob_fault: Option<(u32, f32)>,
}

impl Composer {
    pub(crate) fn new(instance: Arc<Instance>, plan: Plan, facts: CallFacts) -> Self {
        let CallFacts { engine_request_id, rank, transfer, knobs, logprob_fault } = facts;
        let told = knobs.as_ref().is_some_and(|knobs| !knobs.mask.is_empty());
        let mask = (instance.config.return_sampling_mask || told).then(|| Mask {
            sampler: Sampler::new(&instance.model, plan.sampling.clone()),
            output: Vec::new(),
            rows: Vec::new(),
        });
        Self {
            detokenizer: Detokenizer::after(
                &instance.config.vocabulary,
                &plan.prompt,
                plan.response.skip_special,
            ),
            instance,
            plan,
            engine_request_id,
            rank,
            transfer,
            knobs,
            logprob_fault,
            text: String::new(),
            sent_bytes: 0,
            seen_bytes: 0,
            tokens: 0,
            mask,
        }
    }

    /// Output tokens composed until now.
    pub(crate) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// What a call says about its prompt, once.
    pub(crate) fn prompt_info(&self) -> PromptInfo {
        let response = &self.plan.response;
        let prompt = &self.plan.prompt;
        let mut info = PromptInfo { num_prompt_tokens: prompt.len() as u32, ..PromptInfo::default() };
        if response.prompt_ids {
            info.token_ids.clone_from(prompt);
        }
        if let Some(candidates) = &response.prompt_logprobs {
            logprobs::of_prompt(&self.instance.model, &self.plan, candidates, &mut info);
        }
        info
    }

    /// The output of one chunk. An error ends the call with its status.
    pub(crate) fn chunk(&mut self, chunk: &Chunk) -> Result<Composed, Status> {
        match chunk.end {
            Some(End::Dead) => return Err(Status::internal("the engine is dead")),
            Some(End::Refused) => return Err(Status::internal("the engine refused the request")),
            Some(End::Finished(Finish::Error)) => {
                return Err(Status::internal("the engine failed the request"));
            }
            Some(End::Finished(Finish::Stop(_) | Finish::Length | Finish::Aborted)) | None => {}
        }
        let end = match chunk.end {
            Some(End::Finished(finish)) => Some(finish),
            Some(End::Dead | End::Refused) | None => None,
        };
        let mut output = SequenceOutput::default();
        let (mut stopped, mut read) = (None, 0);
        for (index, token) in chunk.tokens.iter().enumerate() {
            let terminal = index + 1 == chunk.tokens.len() && matches!(end, Some(Finish::Stop(_)));
            self.add_token(*token, terminal, &mut output);
            read = index + 1;
            stopped = self.stop_string();
            if stopped.is_some() {
                break;
            }
        }
        if end.is_some() && stopped.is_none() {
            self.detokenizer.finish(&mut self.text);
            stopped = self.stop_string();
        }
        let reason = match (stopped, end) {
            (Some(index), _) => {
                let stop = self.plan.stops.get(index).to_owned();
                Some((FinishReason::Stop, Some(StopReason::StopString(stop))))
            }
            (None, Some(finish)) => Some(finish_reason(finish, chunk)),
            (None, None) => None,
        };
        self.send_text(reason.is_some(), &mut output);
        let last = reason.is_some();
        if let Some((reason, cause)) = reason {
            // The engine has finished by itself, and nothing it made was left out.
            let whole = matches!(end, Some(Finish::Stop(_) | Finish::Length)) && read == chunk.tokens.len();
            self.finish(reason, cause, whole, chunk.cached_tokens, &mut output);
        }
        Ok(Composed { output, last, by_stop_string: stopped.is_some() })
    }

    fn add_token(&mut self, token: StepToken, terminal: bool, output: &mut SequenceOutput) {
        let position = self.tokens;
        self.tokens += 1;
        output.num_tokens += 1;
        if self.plan.response.ids {
            output.token_ids.push(token.id);
        }
        if let Some(candidates) = &self.plan.response.logprobs {
            logprobs::of_output(&self.instance.model, token, candidates, output);
            self.tamper(position, output);
        }
        if let Some(mask) = &mut self.mask {
            let told = self.knobs.as_ref().map(|knobs| knobs.mask.as_slice()).unwrap_or_default();
            let ids = match told.get(position as usize).or(told.last()) {
                Some(ids) => ids.clone(),
                None => mask.sampler.mask(&self.instance.model, token.context, &mask.output, &[]),
            };
            mask.rows.push(TokenIds { ids });
            mask.output.push(token.id);
        }
        // The text of the token that stops a request is dropped, the token is not.
        let silent = terminal && !self.plan.include_stop;
        let wanted = self.plan.response.text || !self.plan.stops.is_empty();
        if wanted && !silent {
            self.detokenizer.push(&self.instance.config.vocabulary, token.id, &mut self.text);
        }
    }

    /// Replaces a log-prob where a script or a fault says so.
    fn tamper(&self, position: u32, output: &mut SequenceOutput) {
        let Some(last) = output.logprobs.last_mut() else { return };
        let told = self.knobs.as_ref().map(|knobs| knobs.logprobs.as_slice()).unwrap_or_default();
        if let Some(logprob) = told.get(position as usize).or(told.last()) {
            *last = *logprob;
        }
        if let Some((at_token, value)) = self.logprob_fault
            && at_token == position
        {
            *last = value;
        }
    }

    /// Looks for a stop string in the new text and cuts the text there.
    fn stop_string(&mut self) -> Option<usize> {
        if self.plan.stops.is_empty() {
            return None;
        }
        let seen = std::mem::replace(&mut self.seen_bytes, self.text.len());
        if self.text.len() == seen || self.tokens <= self.plan.min_tokens && self.plan.min_tokens > 0 {
            return None;
        }
        let hit = self.plan.stops.find(&self.text, seen)?;
        self.text.truncate(hit.text_end);
        Some(hit.index)
    }

    /// Moves text that can no longer change into the output.
    fn send_text(&mut self, last: bool, output: &mut SequenceOutput) {
        if self.plan.stops.is_empty() {
            if self.plan.response.text {
                output.text = std::mem::take(&mut self.text);
            }
            return;
        }
        let held = if last { 0 } else { self.plan.stops.held_back(&self.text) };
        let ready = self.text.len() - held;
        if ready > self.sent_bytes {
            if self.plan.response.text {
                self.text[self.sent_bytes..ready].clone_into(&mut output.text);
            }
            self.sent_bytes = ready;
        }
    }

    fn finish(
        &mut self,
        reason: FinishReason,
        cause: Option<StopReason>,
        whole: bool,
        cached_tokens: u32,
        output: &mut SequenceOutput,
    ) {
        let knobs = self.knobs.as_deref();
        let cut_short = matches!(cause, Some(StopReason::StopString(_))) && !whole;
        // An abort before the first output comes before anything is known about the cache.
        let known = self.tokens > 0 || reason != FinishReason::Aborted;
        let cached_tokens = if known { cached_tokens } else { 0 };
        let cached_tokens = knobs.and_then(|knobs| knobs.cached).unwrap_or(cached_tokens);
        let prefilled = || {
            let prefilled = Prefilled {
                engine_id: &self.instance.transfer_engine_id(self.rank),
                request_id: &self.engine_request_id,
                rank: self.rank,
                prompt_tokens: self.plan.prompt.len() as u32,
                output_tokens: self.tokens,
                cached_tokens,
                block_size: self.instance.config.block_size,
            };
            prefilled.parameters()
        };
        // A stop string stops an engine that goes on, and with it whatever that would have handed over.
        let kv_transfer_params = match knobs.and_then(|knobs| knobs.kv_out.clone()) {
            Some(told) if !cut_short => Some(told),
            None if whole && self.transfer == Transfer::RemoteDecode => Some(prefilled()),
            Some(_) | None => None,
        };
        let ec_transfer_params = knobs.and_then(|knobs| knobs.ec_out.clone()).filter(|_| !cut_short);
        output.finish_info = Some(FinishInfo {
            num_output_tokens: self.tokens,
            finish_reason: reason as i32,
            kv_transfer_params,
            ec_transfer_params,
            num_cached_tokens: Some(cached_tokens),
            stop_reason: cause,
        });
        if let Some(mask) = &mut self.mask {
            output.sampling_mask = std::mem::take(&mut mask.rows);
        }
    }
}

fn finish_reason(finish: Finish, chunk: &Chunk) -> (FinishReason, Option<StopReason>) {
    match finish {
        Finish::Length => (FinishReason::Length, None),
        Finish::Aborted | Finish::Error => (FinishReason::Aborted, None),
        Finish::Stop(StopCause::Id(id)) => (FinishReason::Stop, Some(StopReason::StopTokenId(id))),
        Finish::Stop(StopCause::Eos) => {
            let last = chunk.tokens.last().map(|token| StopReason::EosTokenId(token.id));
            (FinishReason::Stop, last)
        }
    }
}

/// Joins the outputs of a unary call.
pub(crate) fn append(whole: &mut SequenceOutput, mut part: SequenceOutput) {
    whole.text.push_str(&part.text);
    whole.num_tokens += part.num_tokens;
    whole.token_ids.append(&mut part.token_ids);
    whole.logprobs.append(&mut part.logprobs);
    whole.ranks.append(&mut part.ranks);
    whole.candidate_tokens.append(&mut part.candidate_tokens);
    whole.sampling_mask.append(&mut part.sampling_mask);
    if part.finish_info.is_some() {
        whole.finish_info = part.finish_info;
    }
}
