//! Random prompts with shared prefixes, prepared ahead of the clock.
//!
//! A prompt is the prefix that its group shares and a tail out of a bounded pool. The tails of a long run repeat, so each
//! begins with a marker of two ids that counts requests: no two requests of a run share more than their group's prefix
//! until the marker itself comes round, after as many requests as the id span squared.

use super::{decimal_digits, push_ids};
use crate::config::{ConfigError, Lengths, PrefixConfig, Span, WorkloadConfig};
use crate::decimal::push_decimal;
use crate::rng::{Purpose, Rng};

/// Bytes of prefixes and tails held ready.
const POOL_BYTES_MAX: u64 = 256 << 20;
/// Tails held ready. More would not make requests more different, the marker does that.
pub(super) const TAILS_MAX: u64 = 4096;
/// Ids at the start of a tail that are rewritten for each request.
const MARKER_TOKENS: u32 = 2;
/// Bytes of a marker, at most: ten digits and a comma for each id.
const MARKER_BYTES_MAX: usize = 22;

#[derive(Debug)]
pub(super) struct RandomPrompts {
    pub(super) prefixes: Vec<Vec<u8>>,
    pub(super) tails: Vec<Tail>,
    prefix: PrefixConfig,
    marker: Marker,
}

#[derive(Debug)]
pub(super) struct Tail {
    /// The ids after the marker.
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

impl RandomPrompts {
    /// Prepares the prompts of up to `requests` requests (unknown: as many as the pool holds).
    pub(super) fn try_new(
        config: &WorkloadConfig,
        lengths: &Lengths,
        prefix: PrefixConfig,
        requests: Option<u64>,
    ) -> Result<Self, ConfigError> {
        Self::with_pool(config, lengths, prefix, requests, POOL_BYTES_MAX)
    }

    fn with_pool(
        config: &WorkloadConfig,
        lengths: &Lengths,
        prefix: PrefixConfig,
        requests: Option<u64>,
        pool_bytes_max: u64,
    ) -> Result<Self, ConfigError> {
        let WorkloadConfig { ids, seed, prompt_seed, .. } = *config;
        let requests = requests.unwrap_or(u64::MAX).max(1);

        let id_bytes = u64::from(decimal_digits(ids.last)) + 1;
        let groups = u64::from(prefix.groups).min(requests.div_ceil(u64::from(prefix.siblings)));
        let prefix_bytes = groups * u64::from(prefix.tokens) * id_bytes;
        let tail_bytes = (u64::from(lengths.max() - prefix.tokens) * id_bytes).max(1);
        if prefix_bytes + tail_bytes > pool_bytes_max {
            return Err(ConfigError::PoolTooLarge { bytes: prefix_bytes + tail_bytes, max: pool_bytes_max });
        }
        let tails = ((pool_bytes_max - prefix_bytes) / tail_bytes).min(TAILS_MAX).min(requests);

        let prefixes = (0..groups).map(|group| {
            let mut text = Vec::new();
            push_ids(&mut text, &mut Rng::new(prompt_seed, Purpose::Prefix, group), ids, prefix.tokens);
            text
        });
        let tails = (0..tails).map(|index| {
            let tokens = lengths.draw(&mut Rng::new(seed, Purpose::PromptLength, index)) - prefix.tokens;
            let marker_tokens = tokens.min(MARKER_TOKENS);
            let mut text = Vec::new();
            let mut rng = Rng::new(prompt_seed, Purpose::Tail, index);
            push_ids(&mut text, &mut rng, ids, tokens - marker_tokens);
            Tail { text, marker_tokens, tokens }
        });
        let offset = Rng::new(prompt_seed, Purpose::Marker, 0).below(1 << 32);
        Ok(Self {
            prefixes: prefixes.collect(),
            tails: tails.collect(),
            prefix,
            marker: Marker { ids, offset },
        })
    }

    /// About as many bytes as [`RandomPrompts::write`] writes.
    pub(super) fn text_bytes(&self, number: u64) -> usize {
        self.prefix_of(number).len() + self.tail_of(number).text.len() + MARKER_BYTES_MAX
    }

    /// Writes the ids of a prompt, separated by commas, and returns how many they are.
    pub(super) fn write(&self, number: u64, text: &mut Vec<u8>) -> u32 {
        let tail = self.tail_of(number);
        text.extend_from_slice(self.prefix_of(number));
        for position in 0..tail.marker_tokens {
            if self.prefix.tokens + position > 0 {
                text.push(b',');
            }
            push_decimal(text, self.marker.id(number, position));
        }
        if !tail.text.is_empty() {
            text.push(b',');
            text.extend_from_slice(&tail.text);
        }
        self.prefix.tokens + tail.tokens
    }

    fn prefix_of(&self, number: u64) -> &[u8] {
        let group = (number / u64::from(self.prefix.siblings)) % u64::from(self.prefix.groups);
        // Fewer prefixes than groups are held only where fewer groups than that are ever reached.
        &self.prefixes[(group % self.prefixes.len() as u64) as usize]
    }

    fn tail_of(&self, number: u64) -> &Tail {
        &self.tails[(number % self.tails.len() as u64) as usize]
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
