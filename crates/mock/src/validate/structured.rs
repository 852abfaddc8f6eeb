//! Constraints on the output's text: the frontend's checks, and the text that meets them.

use serde_json::Value;
use vllm_proto::DecodingParameters;
use vllm_proto::decoding_parameters::StructuredOutput;

use super::{Checked, invalid};

mod instance;
mod pattern;

/// What a constraint means for the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Constraint {
    /// No constraint.
    Free,
    /// The output is one of these texts, then EOS. More than one only for a choice.
    Texts(Vec<String>),
    /// The engine fails the request: vLLM 0.32 does so for a structural tag that it cannot compile.
    Fails,
}

impl Constraint {
    fn text(text: String) -> Self {
        Self::Texts(vec![text])
    }
}

/// The frontend's checks. Syntax of regex, grammar and structural tag is the engine's business: a broken one
/// ends the output at once, without an error.
pub(super) fn check(decoding: Option<&DecodingParameters>) -> Checked<Constraint> {
    let Some(output) = decoding.and_then(|decoding| decoding.structured_output.as_ref()) else {
        return Ok(Constraint::Free);
    };
    match output {
        StructuredOutput::Json(schema) => {
            let schema: Value =
                serde_json::from_str(schema).map_err(|error| invalid(format!("json schema: {error}")))?;
            if !(schema.is_object() || schema.is_boolean()) {
                return Err(invalid("json schema: neither an object nor a boolean"));
            }
            let text = instance::of_schema(&schema).ok_or_else(|| {
                let most = instance::TEXT_BYTES_MAX;
                invalid(format!("json schema: its simplest instance has more than {most} bytes"))
            })?;
            Ok(Constraint::text(text))
        }
        StructuredOutput::Regex(regex) => Ok(Constraint::text(pattern::of_regex(regex).unwrap_or_default())),
        StructuredOutput::Choice(choice) if choice.choices.is_empty() => {
            Err(invalid("structured output: no choices"))
        }
        StructuredOutput::Choice(choice) => Ok(Constraint::Texts(choice.choices.clone())),
        StructuredOutput::Grammar(grammar) if grammar.trim().is_empty() => {
            Err(invalid("structured output: the grammar is blank"))
        }
        StructuredOutput::Grammar(grammar) => {
            Ok(Constraint::text(pattern::of_grammar(grammar).unwrap_or_default()))
        }
        StructuredOutput::JsonObject(true) => Ok(Constraint::text("{}".to_owned())),
        StructuredOutput::JsonObject(false) => Ok(Constraint::Free),
        StructuredOutput::StructuralTag(tag) if tag.trim().is_empty() => {
            Err(invalid("structured output: the structural tag is blank"))
        }
        StructuredOutput::StructuralTag(tag) => {
            let parsed: Option<Value> = serde_json::from_str(tag).ok();
            let known = |tag: &Value| {
                tag.get("type").is_some_and(|kind| kind == "structural_tag")
                    || (tag.get("structures").is_some() && tag.get("triggers").is_some())
            };
            Ok(if parsed.as_ref().is_some_and(known) { Constraint::Free } else { Constraint::Fails })
        }
    }
}
