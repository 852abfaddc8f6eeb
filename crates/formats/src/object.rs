//! Reads the objects of a body: known fields by name, unknown ones noted, every mistake with its JSON path.

mod member;

use member::members;
pub(crate) use member::{Member, describe, few, number, string, token_ids};

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::fields::{Known, Treatment};
use crate::{Refusal, RefusalKind};

/// Most members of one object; `logit_bias` may have more.
const MEMBERS_MAX: usize = 256;
/// Most unknown fields that are reported.
const IGNORED_NAMES_MAX: usize = 32;
/// Longest reported path of an unknown field, in characters; the rest is cut.
const IGNORED_NAME_CHARS_MAX: usize = 64;

/// What is noticed while a body is read.
pub(crate) struct Notes {
    strict: bool,
    /// Paths of unknown fields: visible ASCII without commas, so that they fit in a header.
    pub(crate) ignored: Vec<String>,
}

impl Notes {
    pub(crate) fn new(strict: bool) -> Self {
        Self { strict, ignored: Vec::new() }
    }

    /// A known and valid field that nothing on the way to the engine can act on: reported, never refused.
    pub(crate) fn without_effect(&mut self, path: String) {
        if self.ignored.len() < IGNORED_NAMES_MAX {
            self.ignored.push(path);
        }
    }

    fn unknown(&mut self, path: &str) -> Result<(), Refusal> {
        let safe = |c: char| if c.is_ascii_graphic() && c != ',' { c } else { '?' };
        let path: String = path.chars().take(IGNORED_NAME_CHARS_MAX).map(safe).collect();
        if self.strict {
            return Err(Refusal::invalid(path, "is not a known field"));
        }
        self.without_effect(path);
        Ok(())
    }
}

/// The known members of one object that are not null, unparsed.
pub(crate) struct Object<'a> {
    path: String,
    members: Vec<(&'static str, &'a str)>,
}

impl<'a> Object<'a> {
    /// Reads a whole body.
    pub(crate) fn body(text: &'a str, known: Known, notes: &mut Notes) -> Result<Self, Refusal> {
        let members = split(text, MEMBERS_MAX).map_err(|error| {
            if error.is_data() && !is_object(text) {
                Refusal::bad_json(format!("the body must be a JSON object, got {}", describe(text)))
            } else {
                Refusal::bad_json(format!("the body cannot be read as JSON: {error}"))
            }
        })?;
        Self::sort(String::new(), &members, known, notes)
    }

    /// Reads an object inside another one.
    pub(crate) fn inside(member: Member<'_, 'a>, known: Known, notes: &mut Notes) -> Result<Self, Refusal> {
        Self::sort(member.path(), &member.members()?, known, notes)
    }

    /// Reads an object in which every field must be known: what would be dropped from it could change its meaning.
    pub(crate) fn closed(path: String, json: &'a str, known: Known) -> Result<Self, Refusal> {
        let members = members(json, MEMBERS_MAX, || path.clone())?;
        Self::sort(path, &members, known, &mut Notes::new(true))
    }

    fn sort(path: String, members: &Members<'a>, known: Known, notes: &mut Notes) -> Result<Self, Refusal> {
        let mut object = Self { path, members: Vec::with_capacity(members.len()) };
        for (at, (name, value)) in members.iter().enumerate() {
            if members[..at].iter().any(|(earlier, _)| earlier == name) {
                let path: String = object.path_of(name).chars().take(IGNORED_NAME_CHARS_MAX).collect();
                return Err(Refusal::invalid(path, "is given twice"));
            }
            let Some(field) = known.iter().copied().flatten().find(|field| field.name == name) else {
                notes.unknown(&object.path_of(name))?;
                continue;
            };
            let value = value.get();
            match field.treatment {
                _ if value == "null" => {}
                Treatment::Executed | Treatment::Ignored => object.members.push((field.name, value)),
                Treatment::Refused { neutral, .. } if neutral.contains(&value) => {}
                Treatment::Refused { reason, .. } => {
                    return Err(Refusal::new(
                        RefusalKind::NotExpressible,
                        object.path_of(name),
                        format!("is not supported: {reason}"),
                    ));
                }
            }
        }
        Ok(object)
    }

    /// A member that is present and not null.
    pub(crate) fn get(&self, name: &'static str) -> Option<Member<'_, 'a>> {
        let (_, raw) = self.members.iter().find(|(known, _)| *known == name)?;
        Some(Member::new(self, name, raw))
    }

    /// A member that is present and not null, read by `read`.
    pub(crate) fn read<'o, T>(
        &'o self,
        name: &'static str,
        read: impl FnOnce(Member<'o, 'a>) -> Result<T, Refusal>,
    ) -> Result<Option<T>, Refusal> {
        self.get(name).map(read).transpose()
    }

    /// A flag, false when absent.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, Refusal> {
        Ok(self.read(name, Member::boolean)?.unwrap_or(false))
    }

    /// A member that must be there.
    pub(crate) fn required(&self, name: &'static str) -> Result<Member<'_, 'a>, Refusal> {
        self.get(name).ok_or_else(|| Refusal::invalid(self.path_of(name), "is required"))
    }

    /// The names of the members that are present and not null.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.members.iter().map(|(name, _)| *name)
    }

    /// The JSON path of a member.
    pub(crate) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{')
}

pub(crate) type Members<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// Finds the members of a JSON object without looking into them.
pub(crate) fn split(json: &str, members_max: usize) -> serde_json::Result<Members<'_>> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let members = deserializer.deserialize_map(MembersVisitor { members_max })?;
    deserializer.end()?;
    Ok(members)
}

/// A string that is not copied where it holds no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

struct MembersVisitor {
    members_max: usize,
}

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(16);
        while let Some((Key(name), value)) = map.next_entry()? {
            if members.len() == self.members_max {
                return Err(A::Error::custom(format_args!("more than {} fields", self.members_max)));
            }
            members.push((name, value));
        }
        Ok(members)
    }
}
