//! Request bodies.
//!
//! A body is ready JSON around two things that differ from request to request: the list of ids and the token budget.
//! Where the ids come from is one of [`Prompts`]; random ones and those of a data set are prepared ahead of the clock.

mod json;
mod random;

use std::sync::Arc;

use bytes::Bytes;

use crate::config::{ConfigError, Lengths, PromptSource, SessionConfig, Span, Target, WorkloadConfig};
use crate::decimal::push_decimal;
use crate::input::{DataSet, LineOrder, Trace};
use crate::rng::{Purpose, Rng};
use crate::session::{FirstTurn, Session};
use json::Frame;
use random::RandomPrompts;

/// The bodies of one run, by the number of the request.
#[derive(Debug)]
pub(crate) struct Workload {
    frame: Frame,
    prompts: Prompts,
    session: Option<SessionConfig>,
    ids: Span,
    output_tokens: Lengths,
    seed: u64,
    prompt_seed: u64,
}

/// One body and what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) json: Bytes,
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
}

/// Where the ids of prompts come from.
#[derive(Debug)]
enum Prompts {
    /// Drawn, with shared prefixes.
    Random(RandomPrompts),
    /// Read from a file.
    DataSet { set: Arc<DataSet>, order: LineOrder },
    /// Drawn for each request anew, with the lengths of a file.
    LengthsOf { set: Arc<DataSet>, ids: Span, prompt_seed: u64 },
    /// Drawn for each block of a trace.
    Trace { trace: Arc<Trace>, ids: Span, prompt_seed: u64 },
}

impl Workload {
    /// Prepares the bodies of up to `requests` requests (unknown: as many as the pool holds).
    pub(crate) fn try_new(
        target: &Target,
        config: &WorkloadConfig,
        requests: Option<u64>,
    ) -> Result<Self, ConfigError> {
        let WorkloadConfig { ids, prompt_seed, .. } = *config;
        let prompts = match &config.prompts {
            PromptSource::Random { prompt_tokens, prefix } => {
                Prompts::Random(RandomPrompts::try_new(config, prompt_tokens, *prefix, requests)?)
            }
            PromptSource::DataSet { set, order } => {
                Prompts::DataSet { set: Arc::clone(set), order: order.clone() }
            }
            PromptSource::Trace { trace } => Prompts::Trace { trace: Arc::clone(trace), ids, prompt_seed },
        };
        Ok(Self::of(target, config, prompts))
    }

    /// Single requests of the same lengths with prompts that no request of [`Workload::try_new`] begins with.
    pub(crate) fn warmup(
        target: &Target,
        config: &WorkloadConfig,
        requests: u64,
    ) -> Result<Self, ConfigError> {
        let prompt_seed = Rng::new(config.prompt_seed, Purpose::Warmup, 0).next_u64();
        let config = WorkloadConfig { session: None, ..config.clone() };
        match &config.prompts {
            PromptSource::DataSet { set, .. } => {
                let prompts = Prompts::LengthsOf { set: Arc::clone(set), ids: config.ids, prompt_seed };
                Ok(Self::of(target, &config, prompts))
            }
            PromptSource::Random { .. } | PromptSource::Trace { .. } => {
                Self::try_new(target, &WorkloadConfig { prompt_seed, ..config }, Some(requests))
            }
        }
    }

    fn of(target: &Target, config: &WorkloadConfig, prompts: Prompts) -> Self {
        Self {
            frame: Frame::new(target, config),
            prompts,
            session: config.session.clone(),
            ids: config.ids,
            output_tokens: config.output_tokens.clone(),
            seed: config.seed,
            prompt_seed: config.prompt_seed,
        }
    }

    /// The body of request `number`; equal numbers give equal bodies.
    pub(crate) fn body(&self, number: u64) -> Body {
        let room = self.prompts.text_bytes(number);
        let mut json = self.frame.begin(room);
        let prompt_tokens = self.prompts.write(number, &mut json);
        let output_tokens = self.prompts.output_tokens(number).unwrap_or_else(|| {
            self.output_tokens.draw(&mut Rng::new(self.seed, Purpose::OutputLength, number))
        });
        self.frame.end(&mut json, output_tokens);
        Body { json: json.into(), prompt_tokens, output_tokens }
    }

    /// True where requests are turns of sessions.
    pub(crate) fn has_sessions(&self) -> bool {
        self.session.is_some()
    }

    /// Session `number` at its first turn, which asks what request `number` would; none where requests are single.
    pub(crate) fn session(&self, number: u64) -> Option<Session<'_>> {
        let config = self.session.as_ref()?;
        let mut text = Vec::with_capacity(self.prompts.text_bytes(number));
        let prompt_tokens = self.prompts.write(number, &mut text);
        let first = FirstTurn {
            text,
            prompt_tokens,
            output_tokens: self.prompts.output_tokens(number),
            shape: Rng::new(self.seed, Purpose::Session, number),
            ids: Rng::new(self.prompt_seed, Purpose::Turn, number),
        };
        Some(Session::new(self, config, first))
    }

    /// The body of a prompt whose ids are text already.
    pub(crate) fn body_of(&self, ids: &[u8], prompt_tokens: u32, output_tokens: u32) -> Body {
        let mut json = self.frame.begin(ids.len());
        json.extend_from_slice(ids);
        self.frame.end(&mut json, output_tokens);
        Body { json: json.into(), prompt_tokens, output_tokens }
    }

    /// How many tokens to ask for where nothing else says it.
    pub(crate) fn draw_output_tokens(&self, rng: &mut Rng) -> u32 {
        self.output_tokens.draw(rng)
    }

    /// One new id.
    pub(crate) fn draw_id(&self, rng: &mut Rng) -> u32 {
        self.ids.draw(rng)
    }
}

impl Prompts {
    /// About as many bytes as [`Prompts::write`] writes.
    fn text_bytes(&self, number: u64) -> usize {
        match self {
            Self::Random(random) => random.text_bytes(number),
            Self::DataSet { set, order } => set.text(order.line(number)).len(),
            Self::LengthsOf { set, ids, .. } => room(set.prompt_tokens(number), *ids),
            Self::Trace { trace, ids, .. } => room(trace.prompt_tokens(number), *ids),
        }
    }

    /// Writes the ids of a prompt, separated by commas, and returns how many they are.
    fn write(&self, number: u64, text: &mut Vec<u8>) -> u32 {
        match self {
            Self::Random(random) => random.write(number, text),
            Self::DataSet { set, order } => {
                let line = order.line(number);
                text.extend_from_slice(set.text(line));
                set.prompt_tokens(line)
            }
            Self::LengthsOf { set, ids, prompt_seed } => {
                let mut rng = Rng::new(*prompt_seed, Purpose::Tail, number);
                let tokens = set.prompt_tokens(number);
                push_ids(text, &mut rng, *ids, tokens);
                tokens
            }
            Self::Trace { trace, ids, prompt_seed } => {
                trace.write(number, *ids, *prompt_seed, text);
                trace.prompt_tokens(number)
            }
        }
    }

    /// How many tokens to ask for, where that comes with the prompt.
    fn output_tokens(&self, number: u64) -> Option<u32> {
        match self {
            Self::Random(_) => None,
            Self::DataSet { set, order } => set.output_tokens(order.line(number)),
            Self::LengthsOf { set, .. } => set.output_tokens(number),
            Self::Trace { trace, .. } => Some(trace.output_tokens(number)),
        }
    }
}

/// Bytes that so many ids take as text, at most.
fn room(tokens: u32, ids: Span) -> usize {
    tokens as usize * (decimal_digits(ids.last) as usize + 1)
}

/// Appends `tokens` random ids, separated by commas.
fn push_ids(text: &mut Vec<u8>, rng: &mut Rng, ids: Span, tokens: u32) {
    for position in 0..tokens {
        if position > 0 {
            text.push(b',');
        }
        push_decimal(text, ids.draw(rng));
    }
}

fn decimal_digits(number: u32) -> u32 {
    number.checked_ilog10().unwrap_or(0) + 1
}

#[cfg(test)]
mod tests;
