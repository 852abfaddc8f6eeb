//! Prompts out of a file: `{"token_ids":[…],"output_tokens":N}` a line.

use std::fmt;
use std::path::Path;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::lines::{self, InputError};
use crate::config::{OUTPUT_TOKENS_MAX, PROMPT_TOKENS_MAX};
use crate::decimal::push_decimal;

/// Ids of all prompts together, in bytes of their JSON text.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// Prompts, and how many tokens to ask for. Held as the text that is sent.
#[derive(Serialize)]
pub struct DataSet {
    /// Where it was read from.
    file: String,
    /// How many prompts it holds.
    prompts: usize,
    #[serde(skip)]
    text: Vec<u8>,
    #[serde(skip)]
    entries: Vec<Entry>,
}

/// One prompt of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// Where its text ends; it begins where the one before ends.
    end: usize,
    prompt_tokens: u32,
    output_tokens: Option<u32>,
}

/// What a line says.
#[derive(Deserialize)]
struct Row {
    token_ids: Ids,
    output_tokens: Option<u32>,
}

impl DataSet {
    /// Reads all prompts of a file. Members that are not known are passed over.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let mut set =
            Self { file: path.display().to_string(), prompts: 0, text: Vec::new(), entries: Vec::new() };
        lines::read(path, None, |row| set.add(row))?;
        set.prompts = set.entries.len();
        Ok(set)
    }

    fn add(&mut self, row: Row) -> Result<(), String> {
        let Row { token_ids: Ids { text, tokens }, output_tokens } = row;
        if !(1..=PROMPT_TOKENS_MAX).contains(&tokens) {
            return Err(format!("{tokens} token ids, must be 1 to {PROMPT_TOKENS_MAX}"));
        }
        if let Some(tokens) = output_tokens.filter(|tokens| !(1..=OUTPUT_TOKENS_MAX).contains(tokens)) {
            return Err(format!("{tokens} output tokens, must be 1 to {OUTPUT_TOKENS_MAX}"));
        }
        if self.text.len() + text.len() > TEXT_BYTES_MAX {
            let max = TEXT_BYTES_MAX >> 20;
            return Err(format!("more than {max} MiB of token ids up to here; send a part of the file"));
        }
        self.text.extend_from_slice(&text);
        self.entries.push(Entry { end: self.text.len(), prompt_tokens: tokens, output_tokens });
        Ok(())
    }

    /// How many prompts it holds; at least one.
    pub fn prompts(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Ids of the longest prompt.
    pub(crate) fn prompt_tokens_max(&self) -> u32 {
        self.entries.iter().map(|entry| entry.prompt_tokens).max().unwrap_or(0)
    }

    /// The ids of a prompt as JSON text without brackets; beyond the last comes the first again.
    pub(crate) fn text(&self, number: u64) -> &[u8] {
        let at = self.at(number);
        let start = at.checked_sub(1).map_or(0, |before| self.entries[before].end);
        &self.text[start..self.entries[at].end]
    }

    /// How many ids a prompt has.
    pub(crate) fn prompt_tokens(&self, number: u64) -> u32 {
        self.entries[self.at(number)].prompt_tokens
    }

    /// How many tokens to ask for, where the file says it.
    pub(crate) fn output_tokens(&self, number: u64) -> Option<u32> {
        self.entries[self.at(number)].output_tokens
    }

    fn at(&self, number: u64) -> usize {
        (number % self.prompts()) as usize
    }
}

impl fmt::Display for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} prompts of {}", self.prompts, self.file)
    }
}

impl fmt::Debug for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataSet({self})")
    }
}

/// A list of ids, turned to text while it is read.
struct Ids {
    text: Vec<u8>,
    tokens: u32,
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(WriteIds)
    }
}

struct WriteIds;

impl<'de> Visitor<'de> for WriteIds {
    type Value = Ids;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of token ids")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut ids: A) -> Result<Ids, A::Error> {
        let (mut text, mut tokens) = (Vec::new(), 0_u32);
        while let Some(id) = ids.next_element::<u32>()? {
            if tokens > 0 {
                text.push(b',');
            }
            push_decimal(&mut text, id);
            tokens += 1;
        }
        Ok(Ids { text, tokens })
    }
}

#[cfg(test)]
mod tests;
