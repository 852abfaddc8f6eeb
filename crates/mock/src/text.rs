//! The pseudo-tokenizer: bytes for the first 256 ids, words for the rest, and text that grows token by token.

use crate::config::Vocabulary;

mod stop;
#[cfg(test)]
mod tests;

pub(crate) use stop::StopStrings;

/// Bytes of output that are held back at most while no character is whole.
const HELD_BYTES_MAX: usize = 32;

/// Longest character of UTF-8 (bytes).
const CHARACTER_BYTES_MAX: usize = 4;

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
    /// How many of the held bytes are the prompt's.
    prompt_bytes: usize,
}

impl Detokenizer {
    /// Decodes what follows a prompt. As in vLLM 0.32, output is decoded behind the prompt: when that ends inside a
    /// character, there is no text to cut off yet, so all of it comes out with the first output.
    pub(crate) fn after(vocabulary: &Vocabulary, prompt: &[u32], skip_special: bool) -> Self {
        let mut new = Self { skip_special, held: Vec::new(), prompt_bytes: 0 };
        let mut end = Vec::new();
        for &id in prompt.iter().rev() {
            let mut bytes = Vec::new();
            new.append(vocabulary, id, &mut bytes);
            end.splice(..0, bytes);
            if end.len() >= CHARACTER_BYTES_MAX {
                break;
            }
        }
        if !end.is_empty() && !ends_with_character(&end) {
            let mut held = Vec::new();
            for &id in prompt {
                new.append(vocabulary, id, &mut held);
            }
            new.prompt_bytes = held.len();
            new.held = held;
        }
        new
    }

    /// Appends the bytes of an id, none if it is not to be seen.
    fn append(&self, vocabulary: &Vocabulary, id: u32, bytes: &mut Vec<u8>) {
        let special = (vocabulary.special_from..vocabulary.tokenizer_ids).contains(&id);
        if !(special && self.skip_special) {
            append_id(vocabulary, id, bytes);
        }
    }

    /// Appends what an id adds to the text.
    pub(crate) fn push(&mut self, vocabulary: &Vocabulary, id: u32, text: &mut String) {
        let before = self.held.len();
        let mut held = std::mem::take(&mut self.held);
        self.append(vocabulary, id, &mut held);
        self.held = held;
        if self.held.len() == before {
            return;
        }
        // Like incremental decoders that compare two decodings: text that ends in a replacement character may
        // still become a real one, so it waits.
        let decoded = String::from_utf8_lossy(&self.held);
        if !decoded.ends_with(REPLACEMENT) || self.held.len() - self.prompt_bytes > HELD_BYTES_MAX {
            text.push_str(&decoded);
            self.held.clear();
            self.prompt_bytes = 0;
        }
    }

    /// Appends what is still held, at the end of the sequence.
    pub(crate) fn finish(&mut self, text: &mut String) {
        text.push_str(&String::from_utf8_lossy(&self.held));
        self.held.clear();
        self.prompt_bytes = 0;
    }
}

/// Whether the last bytes are a whole character. UTF-8 tells without the bytes before.
fn ends_with_character(bytes: &[u8]) -> bool {
    (1..=CHARACTER_BYTES_MAX.min(bytes.len()))
        .any(|length| str::from_utf8(&bytes[bytes.len() - length..]).is_ok())
}
