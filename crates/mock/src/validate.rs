//! Every check that vLLM 0.32 makes before a request reaches its engine, with the status of each.
//!
//! The checks run before the first message of a stream, so a refusal is always the status of the call.

use std::sync::Arc;

use tito_engine_sim::Sampling;
use tonic::{Code, Status};
use vllm_proto::generate_request::Prompt;
use vllm_proto::{GenerateRequest, KvCacheParameters};

use crate::config::{GenerationConfig, Multimodal, Vocabulary};
use crate::control::Adapter;
use crate::kv::{Lora, Origin};
use crate::text::{self, StopStrings};

mod decoding;
mod media;
mod response;
mod stopping;
mod structured;
#[cfg(test)]
mod tests;

pub(crate) use response::{Candidates, ResponsePlan};
pub(crate) use structured::Constraint;

/// What a request is checked against.
pub(crate) struct Limits<'a> {
    pub(crate) vocabulary: &'a Vocabulary,
    pub(crate) generation: &'a GenerationConfig,
    pub(crate) max_model_len: u32,
    /// -1 lifts the cap.
    pub(crate) max_logprobs: i32,
    /// Whether a model name is served.
    pub(crate) serves: &'a dyn Fn(&str) -> bool,
    /// A loaded adapter; the outer `None` means that adapters are off.
    pub(crate) adapter: Option<&'a FindAdapter<'a>>,
    /// How media are taken; `None` means that they are not.
    pub(crate) multimodal: Option<&'a Multimodal>,
}

/// Looks an adapter up by name.
pub(crate) type FindAdapter<'a> = dyn Fn(&str) -> Option<Adapter> + 'a;

/// A request that passed, as the engine runs it.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The prompt after truncation and with all placeholders of media; never empty.
    pub(crate) prompt: Vec<u32>,
    /// Key of the adapter.
    pub(crate) adapter: Option<u64>,
    pub(crate) sampling: Sampling,
    pub(crate) constraint: Constraint,
    pub(crate) max_tokens: u32,
    pub(crate) min_tokens: u32,
    /// Stop ids of the request and, unless it ignores EOS, the model's secondary ones.
    pub(crate) stop_ids: Vec<u32>,
    pub(crate) ignore_eos: bool,
    pub(crate) stops: StopStrings,
    /// Whether the text of what stopped the request is kept.
    pub(crate) include_stop: bool,
    pub(crate) response: ResponsePlan,
    pub(crate) priority: i32,
    pub(crate) read_cache: bool,
    /// Adapter, salt and media, which tell the blocks of the request apart from others.
    pub(crate) origin: Arc<Origin>,
}

pub(crate) type Checked<T> = Result<T, Status>;

pub(crate) fn invalid(message: impl Into<String>) -> Status {
    Status::new(Code::InvalidArgument, message)
}

/// Checks a request and turns it into a plan.
pub(crate) fn validate(request: &GenerateRequest, limits: &Limits<'_>) -> Checked<Plan> {
    // No `..`: a field that the schema gains does not compile until someone decides about it.
    let GenerateRequest {
        request_id,
        model,
        temperature,
        sampling,
        decoding,
        stopping,
        response,
        kv,
        truncate_prompt_tokens,
        priority,
        session_id,
        media,
        lora_name,
        watermarking: _,
        kv_hints: _,
        engine_reasoning_gate: _,
        prompt,
    } = request;
    if !model.is_empty() && !(limits.serves)(model) {
        return Err(Status::not_found(format!("model `{model}` not found")));
    }
    let lora = check_adapter(lora_name, limits)?;
    let asked = media::Asked {
        media,
        by_ids: matches!(prompt, Some(Prompt::TokenIds(_))),
        truncated: *truncate_prompt_tokens > 0,
        max_model_len: limits.max_model_len,
    };
    let prompt = read_prompt(prompt.as_ref(), request_id, limits)?;
    let (prompt, media) = media::check(&asked, prompt, limits.multimodal)?;
    let sampling = decoding::check(*temperature, sampling.as_ref(), decoding.as_ref(), limits)?;
    let constraint = structured::check(decoding.as_ref())?;
    let stopping = stopping::check(request_id, stopping.as_ref(), limits)?;
    let response = response::check(response.as_ref(), limits)?;
    let prompt = truncate(prompt, *truncate_prompt_tokens, stopping.asked_tokens, limits)?;
    let prompt_tokens = prompt.len() as u32;
    if prompt_tokens >= limits.max_model_len {
        return Err(invalid(format!(
            "the context has {} tokens and the prompt takes {prompt_tokens} of them",
            limits.max_model_len
        )));
    }
    let left = limits.max_model_len - prompt_tokens;
    let max_tokens = stopping.asked_tokens.or(limits.generation.max_new_tokens).unwrap_or(left).min(left);
    if stopping.min_tokens > max_tokens {
        return Err(invalid(format!("min_tokens {} exceeds max_tokens {max_tokens}", stopping.min_tokens)));
    }
    let (read_cache, salt) = check_cache(kv.as_ref(), &response);
    let session_id = session_id.as_deref().filter(|id| !id.is_empty()).map(Into::into);
    Ok(Plan {
        prompt,
        adapter: lora.as_ref().map(|lora| Adapter::key_of(&lora.name, &lora.path)),
        sampling,
        constraint,
        max_tokens,
        min_tokens: stopping.min_tokens,
        stop_ids: stopping.stop_ids,
        ignore_eos: stopping.ignore_eos,
        stops: StopStrings::new(stopping.stop_strings, stopping.include),
        include_stop: stopping.include,
        response,
        priority: *priority,
        read_cache,
        origin: Arc::new(Origin { lora, salt, session_id, media }),
    })
}

/// Whether the prefix cache is read, and the salt. Scoring a prompt needs all of it computed.
fn check_cache(kv: Option<&KvCacheParameters>, response: &ResponsePlan) -> (bool, Option<Arc<str>>) {
    let bypass = kv.is_some_and(|kv| kv.bypass_prefix_cache) || response.prompt_logprobs.is_some();
    let salt = kv.map(|kv| kv.cache_salt.as_str()).filter(|salt| !salt.is_empty());
    (!bypass, salt.map(Into::into))
}

fn check_adapter(name: &str, limits: &Limits<'_>) -> Checked<Option<Lora>> {
    if name.is_empty() {
        return Ok(None);
    }
    let Some(adapter) = limits.adapter else {
        return Err(Status::failed_precondition("the engine runs without LoRA"));
    };
    match adapter(name) {
        Some(Adapter { id, source_path }) => {
            Ok(Some(Lora { id, name: name.into(), path: source_path.into() }))
        }
        None => Err(Status::not_found(format!("adapter `{name}` is not loaded"))),
    }
}

fn read_prompt(prompt: Option<&Prompt>, request_id: &str, limits: &Limits<'_>) -> Checked<Vec<u32>> {
    let ids = match prompt {
        None => return Err(invalid("a prompt is required")),
        Some(Prompt::Text(text)) => text::tokenize(text),
        Some(Prompt::TokenIds(ids)) => ids.ids.clone(),
    };
    if ids.is_empty() {
        return Err(invalid(format!("request `{request_id}` has an empty prompt")));
    }
    check_ids("the prompt", &ids, limits.vocabulary.rows)?;
    Ok(ids)
}

/// Keeps the last ids.
fn truncate(mut prompt: Vec<u32>, keep: u32, asked: Option<u32>, limits: &Limits<'_>) -> Checked<Vec<u32>> {
    if keep == 0 {
        return Ok(prompt);
    }
    let most = limits.max_model_len.saturating_sub(asked.unwrap_or(0));
    if keep > most {
        return Err(invalid(format!(
            "truncate_prompt_tokens is {keep}, at most {most} leave room for output"
        )));
    }
    let surplus = prompt.len().saturating_sub(keep as usize);
    prompt.drain(..surplus);
    Ok(prompt)
}

/// Ids must lie in the vocabulary.
pub(crate) fn check_ids(what: &str, ids: &[u32], vocabulary: u32) -> Checked<()> {
    match ids.iter().find(|&&id| id >= vocabulary) {
        None => Ok(()),
        Some(id) => Err(invalid(format!("id {id} in {what} is outside the vocabulary of {vocabulary}"))),
    }
}
