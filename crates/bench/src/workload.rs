//! Request bodies, prepared ahead of the clock.
//!
//! A body is four pieces of ready JSON joined at sending time: what comes before the ids, the prefix its group
//! shares, a tail out of a bounded pool, and what comes after the ids. The tails of a long run repeat, so each begins
//! with a marker of two ids that counts requests: no two requests of a run share more than their group's prefix
//! until the marker itself comes round, after as many requests as the id span squared.

mod json;

use std::io::Write as _;

use bytes::Bytes;

use crate::config::{ConfigError, PrefixConfig, Span, Target, WorkloadConfig};
use crate::rng::{Purpose, Rng};

/// Bytes of prefixes and tails held ready.
const POOL_BYTES_MAX: u64 = 256 << 20;
/// Tails held ready. More would not make requests more different, the marker does that.
const TAILS_MAX: u64 = 4096;
/// Ids at the start of a tail that are rewritten for each request.
const MARKER_TOKENS: u32 = 2;

/// The bodies of one run, by the number of the request.
#[derive(Debug)]
pub(crate) struct Workload {
    head: Vec<u8>,
    foot: Vec<u8>,
    prefixes: Vec<Vec<u8>>,
    tails: Vec<Tail>,
    prefix: PrefixConfig,
    marker: Marker,
}

/// One body and what it asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) json: Bytes,
    pub(crate) prompt_tokens: u32,
}

#[derive(Debug)]
struct Tail {
    /// The ids after the marker, each with the comma before it.
    text: Vec<u8>,
    /// Ids of the marker, fewer than usual only in a tail that is shorter.
    marker_tokens: u32,
    /// All ids of the tail, marker included.
    tokens: u32,
}

#[derive(Debug)]
struct Marker {
    ids: Span,
    offset: u64,
}

impl Workload {
    /// Prepares the bodies of up to `requests` requests (unknown: as many as the pool holds).
    pub(crate) fn try_new(
        target: &Target,
        config: &WorkloadConfig,
        requests: Option<u64>,
    ) -> Result<Self, ConfigError> {
        Self::with_pool(target, config, requests, POOL_BYTES_MAX)
    }

    fn with_pool(
        target: &Target,
        config: &WorkloadConfig,
        requests: Option<u64>,
        pool_bytes_max: u64,
    ) -> Result<Self, ConfigError> {
        let WorkloadConfig { prompt_tokens, ids, prefix, seed, prompt_seed, .. } = *config;
        let requests = requests.unwrap_or(u64::MAX).max(1);
        let (head, foot) = json::around_ids(target, config);

        let id_bytes = u64::from(decimal_digits(ids.last)) + 1;
        let groups = u64::from(prefix.groups).min(requests.div_ceil(u64::from(prefix.siblings)));
        let prefix_bytes = groups * u64::from(prefix.tokens) * id_bytes;
        let tail_bytes = (u64::from(prompt_tokens.last - prefix.tokens) * id_bytes).max(1);
        if prefix_bytes + tail_bytes > pool_bytes_max {
            return Err(ConfigError::PoolTooLarge { bytes: prefix_bytes + tail_bytes, max: pool_bytes_max });
        }
        let tails = ((pool_bytes_max - prefix_bytes) / tail_bytes).min(TAILS_MAX).min(requests);

        let prefixes = (0..groups).map(|group| {
            let mut rng = Rng::new(prompt_seed, Purpose::Prefix, group);
            let mut text = ids_with_commas(&mut rng, ids, prefix.tokens);
            text.drain(..text.len().min(1)); // the first id has no comma before it
            text
        });
        let tails = (0..tails).map(|index| {
            let tokens =
                pick(&mut Rng::new(seed, Purpose::PromptLength, index), prompt_tokens) - prefix.tokens;
            let mut rng = Rng::new(prompt_seed, Purpose::Tail, index);
            let marker_tokens = tokens.min(MARKER_TOKENS);
            Tail { text: ids_with_commas(&mut rng, ids, tokens - marker_tokens), marker_tokens, tokens }
        });
        let offset = Rng::new(prompt_seed, Purpose::Marker, 0).below(1 << 32);
        Ok(Self {
            head,
            foot,
            prefixes: prefixes.collect(),
            tails: tails.collect(),
            prefix,
            marker: Marker { ids, offset },
        })
    }

    /// The body of request `number`; equal numbers give equal bodies.
    pub(crate) fn body(&self, number: u64) -> Body {
        let group = (number / u64::from(self.prefix.siblings)) % u64::from(self.prefix.groups);
        // Fewer prefixes than groups are held only where fewer groups than that are ever reached.
        let prefix = &self.prefixes[(group % self.prefixes.len() as u64) as usize];
        let tail = &self.tails[(number % self.tails.len() as u64) as usize];

        let mut json =
            Vec::with_capacity(self.head.len() + prefix.len() + tail.text.len() + self.foot.len() + 24);
        json.extend_from_slice(&self.head);
        json.extend_from_slice(prefix);
        for position in 0..tail.marker_tokens {
            if self.prefix.tokens + position > 0 {
                json.push(b',');
            }
            push_decimal(&mut json, self.marker.id(number, position));
        }
        json.extend_from_slice(&tail.text);
        json.extend_from_slice(&self.foot);
        Body { json: json.into(), prompt_tokens: self.prefix.tokens + tail.tokens }
    }
}

impl Marker {
    /// Counts requests in the base of the id span, the fast digit first.
    fn id(&self, number: u64, position: u32) -> u32 {
        let span = u64::from(self.ids.last - self.ids.first) + 1;
        let digit = number.wrapping_add(self.offset) / span.pow(position) % span;
        self.ids.first + digit as u32
    }
}

fn pick(rng: &mut Rng, span: Span) -> u32 {
    span.first + rng.below(u64::from(span.last - span.first) + 1) as u32
}

/// `,1,2,3` for `tokens` random ids.
fn ids_with_commas(rng: &mut Rng, ids: Span, tokens: u32) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..tokens {
        text.push(b',');
        push_decimal(&mut text, pick(rng, ids));
    }
    text
}

fn push_decimal(text: &mut Vec<u8>, number: u32) {
    write!(text, "{number}").expect("writing to memory does not fail");
}

fn decimal_digits(number: u32) -> u32 {
    number.checked_ilog10().unwrap_or(0) + 1
}

#[cfg(test)]
mod tests;
