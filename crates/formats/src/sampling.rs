//! How tokens are drawn and when generation ends, read the same way for both formats.

mod logprobs;

use std::collections::BTreeSet;

use tito_types::{Candidates, Sampling, Stopping, TokenId};

use crate::object::{Member, Notes, Object, describe, number, token_ids};
use crate::{Refusal, SamplingDefaults, structured};

/// Most stop strings of one request.
const STOP_STRINGS_MAX: usize = 256;
/// Most bytes of all stop strings of one request together.
const STOP_STRINGS_BYTES_MAX: usize = 64 * 1024;

/// Where the formats differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// The output budget when the client names none.
    pub(crate) max_tokens: Option<u32>,
    /// How `logprobs` and `logprob_token_ids` go together.
    pub(crate) logprob_ids: LogprobIds,
}

/// How `logprobs` and `logprob_token_ids` go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogprobIds {
    /// The ids alone are enough; a count beside them must be their number (vLLM's Rust generate route).
    Alone,
    /// Only beside a count, whose value has no effect (vLLM's completions route).
    BesideCount,
}

/// What the sampling fields of a body ask for.
#[derive(Debug)]
pub(crate) struct Params {
    pub(crate) n: u32,
    pub(crate) sampling: Sampling,
    pub(crate) stopping: Stopping,
    pub(crate) logprobs: Option<Candidates>,
    pub(crate) prompt_logprobs: Option<Candidates>,
    pub(crate) skip_special_tokens: bool,
    pub(crate) bypass_prefix_cache: bool,
    pub(crate) routed_experts_prompt_start: Option<u32>,
}

impl Params {
    pub(crate) fn read(
        object: &Object<'_>,
        dialect: Dialect,
        defaults: SamplingDefaults,
        notes: &mut Notes,
    ) -> Result<Self, Refusal> {
        let routed_experts_prompt_start =
            object.read("routed_experts_prompt_start", |member| member.count(0))?;
        if routed_experts_prompt_start.is_some() {
            // It travels with the request, but vLLM 0.32 returns no routed experts over gRPC.
            notes.without_effect(object.path_of("routed_experts_prompt_start"));
        }
        let n = object.read("n", |member| member.count(1))?.unwrap_or(1);
        Ok(Self {
            n,
            sampling: sampling(object, n, defaults, notes)?,
            stopping: stopping(object, dialect)?,
            logprobs: logprobs::output(object, dialect.logprob_ids)?,
            prompt_logprobs: logprobs::prompt(object)?,
            skip_special_tokens: object.read("skip_special_tokens", Member::boolean)?.unwrap_or(true),
            bypass_prefix_cache: object.flag("skip_reading_prefix_cache")?,
            routed_experts_prompt_start,
        })
    }
}

fn sampling(
    object: &Object<'_>,
    n: u32,
    defaults: SamplingDefaults,
    notes: &mut Notes,
) -> Result<Sampling, Refusal> {
    let neutral = match defaults {
        SamplingDefaults::Vllm => Sampling {
            temperature: Some(1.0),
            top_p: Some(1.0),
            top_k: Some(0),
            min_p: Some(0.0),
            repetition_penalty: Some(1.0),
            ..Sampling::default()
        },
        SamplingDefaults::Engine => Sampling::default(),
    };
    let within = |name, min: f32, max: f32| {
        object.read(name, |member| {
            member.number(&format!("from {min} to {max}"), |value| (min..=max).contains(&value))
        })
    };
    Ok(Sampling {
        temperature: within("temperature", 0.0, 2.0)?.or(neutral.temperature),
        top_p: object
            .read("top_p", |member| {
                member.number("above 0 and at most 1", |value| value > 0.0 && value <= 1.0)
            })?
            .or(neutral.top_p),
        top_k: object.read("top_k", top_k)?.or(neutral.top_k),
        min_p: within("min_p", 0.0, 1.0)?.or(neutral.min_p),
        seed: object.read("seed", |member| seed(member, n))?,
        presence_penalty: within("presence_penalty", -2.0, 2.0)?,
        frequency_penalty: within("frequency_penalty", -2.0, 2.0)?,
        repetition_penalty: object
            .read("repetition_penalty", |member| member.number("above 0", |value| value > 0.0))?
            .or(neutral.repetition_penalty),
        logit_bias: object.read("logit_bias", logit_bias)?.unwrap_or_default(),
        allowed_token_ids: object.read("allowed_token_ids", allowed)?.unwrap_or_default(),
        bad_words_token_ids: object.read("bad_words_token_ids", bad_words)?.unwrap_or_default(),
        structured: structured::read(object, notes)?,
        watermarking: object.read("watermarking", Member::boolean)?,
    })
}

/// −1 and 0 turn the limit off.
fn top_k(member: Member<'_, '_>) -> Result<u32, Refusal> {
    Ok(member.integer(-1, u32::MAX.into())?.max(0) as u32)
}

/// Child `i` of `n` draws with seed + `i`.
fn seed(member: Member<'_, '_>, n: u32) -> Result<i64, Refusal> {
    let seed = member.integer(i64::MIN, i64::MAX)?;
    match seed.checked_add(i64::from(n) - 1) {
        Some(_) => Ok(seed),
        None => Err(member.refuse(format!("must leave room for n = {n} seeds below {}", i64::MAX))),
    }
}

fn logit_bias(member: Member<'_, '_>) -> Result<Vec<(TokenId, f32)>, Refusal> {
    let mut seen = BTreeSet::new();
    let mut biases = Vec::new();
    for (name, bias) in member.entries()? {
        let digits = name.bytes().all(|byte| byte.is_ascii_digit());
        let Some(token) = name.parse::<TokenId>().ok().filter(|_| digits) else {
            return Err(member.refuse("must have token ids as keys: whole numbers from 0 to 4294967295"));
        };
        if !seen.insert(token) {
            return Err(member.refuse(format!("names token {token} twice")));
        }
        let Some(bias) = number(bias.get()) else {
            let path = format!("{}.{token}", member.path());
            return Err(Refusal::invalid(
                path,
                format!("must be a finite number, got {}", describe(bias.get())),
            ));
        };
        biases.push((token, bias));
    }
    Ok(biases)
}

fn allowed(member: Member<'_, '_>) -> Result<Vec<TokenId>, Refusal> {
    let allowed = member.token_ids()?;
    if allowed.is_empty() {
        return Err(member.refuse("must not be empty: no token could be drawn"));
    }
    Ok(allowed)
}

fn bad_words(member: Member<'_, '_>) -> Result<Vec<Vec<TokenId>>, Refusal> {
    let words = member.list::<&serde_json::value::RawValue>("a list of token ids")?;
    let read = |(at, word): (usize, &&serde_json::value::RawValue)| {
        let path = || format!("{}[{at}]", member.path());
        let ids = token_ids(word.get(), path)?;
        if ids.is_empty() {
            return Err(Refusal::invalid(path(), "must not be empty"));
        }
        Ok(ids)
    };
    words.iter().enumerate().map(read).collect()
}

fn stopping(object: &Object<'_>, dialect: Dialect) -> Result<Stopping, Refusal> {
    let max_tokens = object.read("max_tokens", |member| member.count(1))?.or(dialect.max_tokens);
    let min_tokens = object.read("min_tokens", |member| member.count(0))?.unwrap_or(0);
    if let Some(max) = max_tokens.filter(|max| min_tokens > *max) {
        let message = format!("must be at most max_tokens, {max}; got {min_tokens}");
        return Err(Refusal::invalid(object.path_of("min_tokens"), message));
    }
    let stop = object.read("stop", stop_strings)?.unwrap_or_default();
    let detokenize = object.read("detokenize", Member::boolean)?.unwrap_or(true);
    if !detokenize && !stop.is_empty() {
        return Err(Refusal::invalid(
            object.path_of("detokenize"),
            "must be true with stop strings: they are found in text",
        ));
    }
    Ok(Stopping {
        max_tokens,
        min_tokens,
        stop,
        stop_token_ids: object.read("stop_token_ids", Member::token_ids)?.unwrap_or_default(),
        include_stop_str_in_output: object.flag("include_stop_str_in_output")?,
        ignore_eos: object.flag("ignore_eos")?,
        thinking_token_budget: object.read("thinking_token_budget", |member| member.integer(-1, i64::MAX))?,
    })
}

fn stop_strings(member: Member<'_, '_>) -> Result<Vec<String>, Refusal> {
    let one = member.raw().starts_with('"');
    let stop = if one { vec![member.text()?] } else { member.list::<String>("a string")? };
    if let Some(at) = stop.iter().position(String::is_empty) {
        let path = if one { member.path() } else { format!("{}[{at}]", member.path()) };
        return Err(Refusal::invalid(path, "must not be empty"));
    }
    if stop.len() > STOP_STRINGS_MAX {
        return Err(
            member.refuse(format!("must hold at most {STOP_STRINGS_MAX} strings, got {}", stop.len()))
        );
    }
    let bytes: usize = stop.iter().map(String::len).sum();
    if bytes > STOP_STRINGS_BYTES_MAX {
        return Err(member.refuse(format!("must hold at most {STOP_STRINGS_BYTES_MAX} bytes, got {bytes}")));
    }
    Ok(stop)
}
