//! A recorded trace in Mooncake's format (FAST'25): when requests came, how long they were, and which blocks of their
//! prompts were equal.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lines::{self, InputError};
use crate::config::{OUTPUT_TOKENS_MAX, PROMPT_TOKENS_MAX, Span};
use crate::decimal::push_decimal;
use crate::rng::{Purpose, Rng};

/// Block ids of all requests together.
const BLOCK_IDS_MAX: usize = 1 << 26;
/// Latest arrival: a year, in milliseconds.
const TIMESTAMP_MS_MAX: f64 = 366.0 * 86_400_000.0;

/// Requests by arrival; those of one moment in the order of the file.
#[derive(Serialize)]
pub struct Trace {
    /// Where it was read from.
    file: String,
    /// Tokens of the prompt that one id of the file stands for.
    block_tokens: u32,
    #[serde(rename = "requests")]
    count: usize,
    #[serde(skip)]
    requests: Vec<Request>,
    #[serde(skip)]
    block_ids: Vec<u64>,
}

/// One request of a trace.
#[derive(Debug, Clone, Copy)]
struct Request {
    /// Since the first one.
    arrival: Duration,
    prompt_tokens: u32,
    output_tokens: u32,
    /// Where its ids begin in the list of all.
    first_block: usize,
    blocks: usize,
}

/// What a line says.
#[derive(Deserialize)]
struct Row {
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    hash_ids: Vec<u64>,
}

impl Trace {
    /// Reads the first `lines` requests, or all. Each id stands for `block_tokens` tokens of the prompt, the last one
    /// for what is left.
    pub fn read(path: &Path, lines: Option<u64>, block_tokens: u32) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let mut trace = Self { file, block_tokens, count: 0, requests: Vec::new(), block_ids: Vec::new() };
        lines::read(path, lines, |row| trace.add(row))?;
        trace.requests.sort_by_key(|request| request.arrival);
        let start = trace.requests.first().map_or(Duration::ZERO, |first| first.arrival);
        trace.requests.iter_mut().for_each(|request| request.arrival -= start);
        trace.count = trace.requests.len();
        Ok(trace)
    }

    fn add(&mut self, row: Row) -> Result<(), String> {
        let Row { timestamp, input_length, output_length, hash_ids } = row;
        if !(0.0..=TIMESTAMP_MS_MAX).contains(&timestamp) {
            return Err(format!("timestamp {timestamp}, must be milliseconds from 0 to a year"));
        }
        if !(1..=PROMPT_TOKENS_MAX).contains(&input_length) {
            return Err(format!("input_length {input_length}, must be 1 to {PROMPT_TOKENS_MAX}"));
        }
        if output_length > OUTPUT_TOKENS_MAX {
            return Err(format!("output_length {output_length}, must be at most {OUTPUT_TOKENS_MAX}"));
        }
        let (full, all) = (input_length / self.block_tokens, input_length.div_ceil(self.block_tokens));
        if !(full as usize..=all as usize).contains(&hash_ids.len()) {
            return Err(format!(
                "{} ids for {input_length} prompt tokens, which are {all} blocks of {}; is --trace-block-tokens right?",
                hash_ids.len(),
                self.block_tokens
            ));
        }
        if self.block_ids.len() + hash_ids.len() > BLOCK_IDS_MAX {
            return Err(format!("more than {BLOCK_IDS_MAX} ids up to here; --requests N reads fewer lines"));
        }
        self.requests.push(Request {
            arrival: Duration::from_secs_f64(timestamp / 1e3),
            prompt_tokens: input_length,
            output_tokens: output_length.max(1),
            first_block: self.block_ids.len(),
            blocks: hash_ids.len(),
        });
        self.block_ids.extend_from_slice(&hash_ids);
        Ok(())
    }

    /// How many requests it holds; at least one.
    pub fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    /// When each request came, since the first one, at this multiple of the recorded speed.
    pub(crate) fn arrivals(&self, speed: f64) -> impl Iterator<Item = Duration> {
        self.requests.iter().map(move |request| request.arrival.div_f64(speed))
    }

    /// From the first request to the last.
    pub(crate) fn duration(&self, speed: f64) -> Duration {
        self.arrivals(speed).last().unwrap_or_default()
    }

    /// Tokens of a prompt; beyond the last request comes the first again.
    pub(crate) fn prompt_tokens(&self, number: u64) -> u32 {
        self.request(number).prompt_tokens
    }

    /// Tokens to ask for; at least one.
    pub(crate) fn output_tokens(&self, number: u64) -> u32 {
        self.request(number).output_tokens
    }

    /// Writes the ids of a prompt as JSON text without brackets. Under one seed equal blocks have equal ids, and what no
    /// block id covers is drawn for the request alone.
    pub(crate) fn write(&self, number: u64, ids: Span, prompt_seed: u64, text: &mut Vec<u8>) {
        let request = self.request(number);
        let blocks = &self.block_ids[request.first_block..request.first_block + request.blocks];
        let own = Rng::new(prompt_seed, Purpose::Tail, number % self.requests());
        let parts = blocks.iter().map(|block| Rng::new(prompt_seed, Purpose::Block, *block)).chain([own]);
        let mut left = request.prompt_tokens;
        for mut rng in parts {
            for _ in 0..left.min(self.block_tokens) {
                if left < request.prompt_tokens {
                    text.push(b',');
                }
                push_decimal(text, ids.draw(&mut rng));
                left -= 1;
            }
        }
    }

    fn request(&self, number: u64) -> &Request {
        &self.requests[(number % self.requests()) as usize]
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests of {}", self.count, self.file)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({self})")
    }
}

#[cfg(test)]
mod tests;
