//! The pseudo-tokenizer: bytes for the first 256 ids, words for the rest, and text that grows token by token.

use crate::config::Vocabulary;

mod stop;
#[cfg(test)]
mod tests;

pub(crate) use stop::StopStrings;

/// Bytes of an unfinished character that are held back at most.
const HELD_BYTES_MAX: usize = 32;

const REPLACEMENT: char = '\u{fffd}';

const ONSETS: [&str; 16] =
    ["b", "br", "d", "f", "g", "gr", "k", "l", "m", "n", "p", "r", "s", "st", "t", "v"];
const VOWELS: [&str; 8] = ["a", "e", "i", "o", "u", "ai", "ea", "ou"];
const CODAS: [&str; 4] = ["", "n", "r", "l"];

/// Ids of a text: its bytes.
pub(crate) fn tokenize(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// The bytes of one id. Special ids have a name in angle brackets, ids that are no tokens have none.
pub(crate) fn append_id(vocabulary: &Vocabulary, id: u32, bytes: &mut Vec<u8>) {
    if id >= vocabulary.tokenizer_ids {
        return;
    }
    if id >= vocabulary.special_from {
        bytes.extend_from_slice(format!("<|{id}|>").as_bytes());
    } else if let Ok(byte) = u8::try_from(id) {
        bytes.push(byte);
    } else {
        let word = (id - 256) as usize;
        if word.is_multiple_of(3) {
            bytes.push(b' ');
        }
        for syllable in [ONSETS[word % 16], VOWELS[word / 16 % 8], CODAS[word / 128 % 4]] {
            bytes.extend_from_slice(syllable.as_bytes());
        }
        if word >= 512 {
            bytes.extend_from_slice((word / 512).to_string().as_bytes());
        }
    }
}

/// Text of a growing id sequence. A character split over tokens is held until it is whole.
#[derive(Debug)]
pub(crate) struct Detokenizer {
    skip_special: bool,
    held: Vec<u8>,
}

impl Detokenizer {
    pub(crate) fn new(skip_special: bool) -> Self {
        Self { skip_special, held: Vec::new() }
    }

    /// Appends what an id adds to the text.
    pub(crate) fn push(&mut self, vocabulary: &Vocabulary, id: u32, text: &mut String) {
        let special = (vocabulary.special_from..vocabulary.tokenizer_ids).contains(&id);
        if special && self.skip_special {
            return;
        }
        append_id(vocabulary, id, &mut self.held);
        if self.held.is_empty() {
            return;
        }
        // Like incremental decoders that compare two decodings: text that ends in a replacement character may
        // still become a real one, so it waits.
        let decoded = String::from_utf8_lossy(&self.held);
        if !decoded.ends_with(REPLACEMENT) || self.held.len() > HELD_BYTES_MAX {
            text.push_str(&decoded);
            self.held.clear();
        }
    }

    /// Appends what is still held, at the end of the sequence.
    pub(crate) fn finish(&mut self, text: &mut String) {
        text.push_str(&String::from_utf8_lossy(&self.held));
        self.held.clear();
    }
}
