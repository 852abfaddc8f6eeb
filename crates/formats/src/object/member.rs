use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tito_types::TokenId;

use super::{Key, MEMBERS_MAX, Members, Object, split};
use crate::Refusal;

/// Longest part of a client's number that a message repeats, in characters.
const QUOTED_CHARS_MAX: usize = 32;

/// One member of an object, still JSON text.
#[derive(Clone, Copy)]
pub(crate) struct Member<'o, 'a> {
    object: &'o Object<'a>,
    name: &'static str,
    raw: &'a str,
}

impl<'o, 'a> Member<'o, 'a> {
    pub(super) fn new(object: &'o Object<'a>, name: &'static str, raw: &'a str) -> Self {
        Self { object, name, raw }
    }

    /// Where it is: `sampling_params.top_p`.
    pub(crate) fn path(self) -> String {
        self.object.path_of(self.name)
    }

    /// The value as the client wrote it.
    pub(crate) fn raw(self) -> &'a str {
        self.raw
    }

    /// A refusal of this member.
    pub(crate) fn refuse(self, message: impl Into<String>) -> Refusal {
        Refusal::invalid(self.path(), message)
    }

    fn refuse_value(self, expected: &str) -> Refusal {
        self.refuse(mismatch(expected, self.raw))
    }

    pub(crate) fn boolean(self) -> Result<bool, Refusal> {
        serde_json::from_str(self.raw).map_err(|_| self.refuse_value("true or false"))
    }

    pub(crate) fn text(self) -> Result<String, Refusal> {
        string(self.raw, || self.path()).map(Cow::into_owned)
    }

    /// A whole number written as one: `1.0` is refused.
    pub(crate) fn integer(self, min: i64, max: i64) -> Result<i64, Refusal> {
        serde_json::from_str(self.raw)
            .ok()
            .filter(|value| (min..=max).contains(value))
            .ok_or_else(|| self.refuse_value(&format!("a whole number from {min} to {max}")))
    }

    pub(crate) fn count(self, min: u32) -> Result<u32, Refusal> {
        let value = self.integer(min.into(), u32::MAX.into())?;
        Ok(u32::try_from(value).expect("the range was checked"))
    }

    /// A finite number that `ok` accepts; `expected` describes what it accepts.
    pub(crate) fn number(self, expected: &str, ok: impl Fn(f32) -> bool) -> Result<f32, Refusal> {
        number(self.raw)
            .filter(|value| ok(*value))
            .ok_or_else(|| self.refuse_value(&format!("a number {expected}")))
    }

    pub(crate) fn token_ids(self) -> Result<Vec<TokenId>, Refusal> {
        token_ids(self.raw, || self.path())
    }

    /// A list whose elements are `expected`.
    pub(crate) fn list<T: Deserialize<'a>>(self, expected: &str) -> Result<Vec<T>, Refusal> {
        list(self.raw, expected, || self.path())
    }

    /// The members of an object that may hold any number of them.
    pub(crate) fn entries(self) -> Result<Members<'a>, Refusal> {
        self.split(usize::MAX)
    }

    /// The members of an object, unparsed and in order.
    pub(crate) fn members(self) -> Result<Members<'a>, Refusal> {
        self.split(MEMBERS_MAX)
    }

    fn split(self, members_max: usize) -> Result<Members<'a>, Refusal> {
        members(self.raw, members_max, || self.path())
    }
}

/// The members of what must be an object.
pub(super) fn members(
    json: &str,
    members_max: usize,
    path: impl Fn() -> String,
) -> Result<Members<'_>, Refusal> {
    if !json.starts_with('{') {
        return Err(Refusal::invalid(path(), format!("must be an object, got {}", describe(json))));
    }
    split(json, members_max).map_err(|error| Refusal::invalid(path(), format!("cannot be read: {error}")))
}

/// A string, not copied where it holds no escapes.
pub(crate) fn string(json: &str, path: impl Fn() -> String) -> Result<Cow<'_, str>, Refusal> {
    match serde_json::from_str(json) {
        Ok(Key(text)) => Ok(text),
        Err(_) => Err(Refusal::invalid(path(), mismatch("a string", json))),
    }
}

/// The elements of a short list, unparsed. A longer one is refused before it takes memory.
pub(crate) fn few(json: &str, elements_max: usize, path: impl Fn() -> String) -> Result<Vec<&str>, Refusal> {
    if !json.starts_with('[') {
        return Err(Refusal::invalid(path(), format!("must be a list, got {}", describe(json))));
    }
    let elements = serde_json::Deserializer::from_str(json).deserialize_seq(FewVisitor { elements_max });
    elements
        .ok()
        .flatten()
        .ok_or_else(|| Refusal::invalid(path(), format!("must hold at most {elements_max} entries")))
}

struct FewVisitor {
    elements_max: usize,
}

impl<'de> Visitor<'de> for FewVisitor {
    type Value = Option<Vec<&'de str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element::<&RawValue>()? {
            if elements.len() == self.elements_max {
                return Ok(None);
            }
            elements.push(element.get());
        }
        Ok(Some(elements))
    }
}

/// Reads a list of token ids.
///
/// `json` is one valid JSON value. Prompts are the bulk of a body, so their usual form is read without a parser.
pub(crate) fn token_ids(json: &str, path: impl Fn() -> String) -> Result<Vec<TokenId>, Refusal> {
    plain_ids(json).map_or_else(|| list(json, "a token id: a whole number from 0 to 4294967295", path), Ok)
}

/// The ids of a valid JSON list of nothing but whole numbers in range.
fn plain_ids(json: &str) -> Option<Vec<TokenId>> {
    let inner = json.strip_prefix('[')?.strip_suffix(']')?;
    let mut ids = Vec::with_capacity(inner.len() / 4);
    let mut id: Option<TokenId> = None;
    for byte in inner.bytes() {
        match byte {
            b'0'..=b'9' => {
                let digit = TokenId::from(byte - b'0');
                id = Some(id.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
            }
            b',' => ids.push(id.take()?),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => return None,
        }
    }
    ids.extend(id);
    Some(ids)
}

/// A finite 32-bit number; minus zero becomes zero.
pub(crate) fn number(json: &str) -> Option<f32> {
    serde_json::from_str::<f32>(json).ok().filter(|value| value.is_finite()).map(|value| value + 0.0)
}

fn list<'a, T: Deserialize<'a>>(
    json: &'a str,
    expected: &str,
    path: impl Fn() -> String,
) -> Result<Vec<T>, Refusal> {
    let refuse = |path: String, expected: &str, json: &str| Refusal::invalid(path, mismatch(expected, json));
    serde_json::from_str::<Vec<T>>(json).map_err(|_| {
        let items = serde_json::from_str::<Vec<&RawValue>>(json).unwrap_or_default();
        let bad = items.iter().position(|item| serde_json::from_str::<T>(item.get()).is_err());
        bad.map_or_else(
            || refuse(path(), "a list", json),
            |at| refuse(format!("{}[{at}]", path()), expected, items[at].get()),
        )
    })
}

/// Says that one JSON value is not what it must be. Strings that are valid JSON and yet cannot be read have an escape
/// that spells half of a character.
fn mismatch(expected: &str, json: &str) -> String {
    if json.starts_with('"') && serde_json::from_str::<Key<'_>>(json).is_err() {
        return format!("must be {expected}, got a string with a lone surrogate, which is not text");
    }
    format!("must be {expected}, got {}", describe(json))
}

/// What a JSON value is, for a message: short numbers as they are, everything else by its kind.
pub(crate) fn describe(json: &str) -> String {
    let json = json.trim_start();
    match json.as_bytes().first() {
        None => "nothing".to_owned(),
        Some(b'"') => "a string".to_owned(),
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "a list".to_owned(),
        Some(_) if json.chars().count() <= QUOTED_CHARS_MAX => json.trim_end().to_owned(),
        Some(_) => format!("{}…", json.chars().take(QUOTED_CHARS_MAX).collect::<String>()),
    }
}

#[cfg(test)]
mod tests;
