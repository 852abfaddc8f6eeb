//! The few fields of a reply that are looked at. Everything else is skipped unread; ids are counted, and kept only
//! where they are asked for.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A unary body, or the data of one event.
#[derive(Deserialize)]
#[serde(bound = "I: TokenIds")]
pub(super) struct Part<I> {
    #[serde(default = "Vec::new")]
    pub(super) choices: Vec<Choice<I>>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct Usage {
    pub(super) completion_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(bound = "I: TokenIds")]
pub(super) struct Choice<I> {
    pub(super) token_ids: Option<I>,
    text: Option<HasText>,
    pub(super) finish_reason: Option<String>,
}

impl<I: TokenIds> Choice<I> {
    /// Where ids are sent they decide. Where they are not, an event with text carries output, and so does one that
    /// neither has text nor finishes: its token ended inside a character.
    pub(super) fn carries_output(&self) -> bool {
        match (&self.token_ids, &self.text) {
            (Some(ids), _) => ids.count() > 0,
            (None, Some(text)) => text.0 || self.finish_reason.is_none(),
            (None, None) => false,
        }
    }
}

/// A list of token ids, as far as it is read.
pub(super) trait TokenIds: DeserializeOwned {
    /// How many they are.
    fn count(&self) -> u64;
    /// The ids themselves, where they were kept.
    fn known(&self) -> &[u32];
}

impl TokenIds for Vec<u32> {
    fn count(&self) -> u64 {
        self.len() as u64
    }

    fn known(&self) -> &[u32] {
        self
    }
}

impl TokenIds for IdCount {
    fn count(&self) -> u64 {
        self.0
    }

    fn known(&self) -> &[u32] {
        &[]
    }
}

/// The length of a list of token ids.
pub(super) struct IdCount(u64);

/// Whether a text is not empty.
struct HasText(bool);

impl<'de> Deserialize<'de> for IdCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(CountIds).map(Self)
    }
}

impl<'de> Deserialize<'de> for HasText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NotEmpty).map(Self)
    }
}

struct CountIds;

impl<'de> Visitor<'de> for CountIds {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of token ids")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut ids: A) -> Result<u64, A::Error> {
        let mut count = 0;
        while ids.next_element::<u32>()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

struct NotEmpty;

impl Visitor<'_> for NotEmpty {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<bool, E> {
        Ok(!text.is_empty())
    }
}
