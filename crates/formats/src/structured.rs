//! Grammars the output must follow: `structured_outputs`, and `response_format` of completions.
//!
//! What an engine would answer with a failure of its own is checked here: exactly one kind, schemas that are JSON
//! objects, structural tags of the shape that engines compile.

use serde::Deserialize;
use serde_json::value::RawValue;
use tito_types::StructuredOutput;

use crate::fields;
use crate::object::{Member, Notes, Object};
use crate::{Refusal, json};

/// Deepest nesting of a schema or structural tag (vLLM 0.32 refuses deeper schemas).
const DEPTH_MAX: usize = 64;

/// Reads `structured_outputs` of `object`.
pub(crate) fn read(object: &Object<'_>, notes: &mut Notes) -> Result<Option<StructuredOutput>, Refusal> {
    let Some(member) = object.get("structured_outputs") else { return Ok(None) };
    let kinds = Object::inside(member, fields::STRUCTURED, notes)?;
    let asked = |name: &&str| *name != "json_object" || kinds.flag("json_object") != Ok(false);
    let asked: Vec<&str> = kinds.names().filter(asked).collect();
    let [_] = asked[..] else {
        let message = format!(
            "must hold exactly one of json, regex, choice, grammar, json_object and structural_tag, got {}",
            asked.len()
        );
        return Err(member.refuse(message));
    };
    let one = [
        kinds.read("json", |json| Ok(StructuredOutput::JsonSchema(schema(json)?)))?,
        kinds.read("regex", |regex| Ok(StructuredOutput::Regex(regex.text()?)))?,
        kinds.read("choice", choices)?,
        kinds.read("grammar", grammar)?,
        kinds.flag("json_object")?.then_some(StructuredOutput::JsonObject),
        kinds.read("structural_tag", structural_tag)?,
    ];
    Ok(one.into_iter().flatten().next())
}

/// Reads `response_format` of `object`. Beside `structured_outputs` it must ask for nothing.
pub(crate) fn response_format(
    object: &Object<'_>,
    notes: &mut Notes,
) -> Result<Option<StructuredOutput>, Refusal> {
    let Some(member) = object.get("response_format") else { return Ok(None) };
    let format = Object::inside(member, fields::completions::RESPONSE_FORMAT, notes)?;
    let kind = format.required("type")?;
    let asked = match kind.text()?.as_str() {
        "text" => return Ok(None),
        "json_object" => StructuredOutput::JsonObject,
        "json_schema" => {
            let wrapper = format.required("json_schema")?;
            let wrapper = Object::inside(wrapper, fields::completions::JSON_SCHEMA, notes)?;
            StructuredOutput::JsonSchema(schema(wrapper.required("schema")?)?)
        }
        "structural_tag" => structural_tag(member)?,
        _ => return Err(kind.refuse("must be text, json_object, json_schema or structural_tag")),
    };
    if object.get("structured_outputs").is_some() {
        return Err(member.refuse("cannot be combined with structured_outputs"));
    }
    Ok(Some(asked))
}

/// A JSON object, given as such or as text.
fn schema(member: Member<'_, '_>) -> Result<String, Refusal> {
    let text = if member.raw().starts_with('"') { member.text()? } else { member.raw().to_owned() };
    let valid = serde_json::from_str::<&RawValue>(&text).is_ok_and(|value| value.get().starts_with('{'));
    if !valid {
        return Err(member.refuse("must be a JSON object, or a string that holds one"));
    }
    if json::depth(&text) > DEPTH_MAX {
        return Err(member.refuse(format!("must nest at most {DEPTH_MAX} levels deep")));
    }
    Ok(text)
}

fn choices(member: Member<'_, '_>) -> Result<StructuredOutput, Refusal> {
    let choices = member.list::<String>("a string")?;
    if choices.is_empty() {
        return Err(member.refuse("must not be empty"));
    }
    Ok(StructuredOutput::Choice(choices))
}

fn grammar(member: Member<'_, '_>) -> Result<StructuredOutput, Refusal> {
    let text = member.text()?;
    if text.trim().is_empty() {
        return Err(member.refuse("must not be blank"));
    }
    Ok(StructuredOutput::Grammar(text))
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow)]
    structures: Vec<Structure<'a>>,
    triggers: Vec<String>,
}

#[derive(Deserialize)]
struct Structure<'a> {
    begin: String,
    #[serde(borrow)]
    schema: &'a RawValue,
    #[serde(rename = "end")]
    _end: String,
}

/// The shape that engines compile: structures of begin, schema and end, each begin starting with a trigger.
fn structural_tag(member: Member<'_, '_>) -> Result<StructuredOutput, Refusal> {
    let text = schema(member)?;
    let Ok(tag) = serde_json::from_str::<Tag<'_>>(&text) else {
        return Err(member.refuse(
            "must hold structures, each with begin, schema and end, and triggers, a list of strings",
        ));
    };
    if tag.structures.is_empty() {
        return Err(member.refuse("must hold at least one structure"));
    }
    for Structure { begin, schema, .. } in &tag.structures {
        if !tag.triggers.iter().any(|trigger| begin.starts_with(trigger.as_str())) {
            return Err(member.refuse("must have a trigger that each structure's begin starts with"));
        }
        if !schema.get().starts_with('{') {
            return Err(member.refuse("must have a JSON object as each structure's schema"));
        }
    }
    Ok(StructuredOutput::StructuralTag(text))
}

#[cfg(test)]
mod tests;
