//! Constraints: what the frontend refuses, and texts that meet the rest.

use serde_json::Value;

use super::StructuredOutput::{Grammar, Json, Regex, StructuralTag};
use super::{Code, StringChoices, StructuredOutput, check, decoding};
use crate::validate::Constraint;

fn constraint(output: StructuredOutput) -> Result<Constraint, Code> {
    check(&decoding(|decoding| decoding.structured_output = Some(output))).map(|plan| plan.constraint)
}

fn text(kind: fn(String) -> StructuredOutput, source: &str) -> String {
    match constraint(kind(source.to_owned())).unwrap() {
        Constraint::Texts(texts) => texts[0].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_frontend_refuses_what_it_can_see() {
    let owned = str::to_owned;
    for output in [
        Json(owned("{nope")),
        Json(owned("\"abc\"")),
        Json(owned("[]")),
        Json(owned("")),
        StructuredOutput::Choice(StringChoices::default()),
        Grammar(owned(" ")),
        StructuralTag(owned("")),
    ] {
        assert_eq!(constraint(output.clone()).unwrap_err(), Code::InvalidArgument, "{output:?}");
    }
}

#[test]
fn the_engine_fails_on_a_tag_it_does_not_know_and_ignores_broken_patterns() {
    for (tag, expected) in [
        ("{}", Constraint::Fails),
        ("nope", Constraint::Fails),
        (r#"{"type":"structural_tag","format":{}}"#, Constraint::Free),
        (r#"{"structures":[],"triggers":[]}"#, Constraint::Free),
    ] {
        assert_eq!(constraint(StructuralTag(tag.to_owned())).unwrap(), expected, "{tag}");
    }
    for broken in ["(", "a)", "[", "[^a]", "*", "a{x}", "\\", "a{9999}", "(?=a)", ""] {
        assert_eq!(text(Regex, broken), "", "{broken}");
    }
    assert_eq!(text(Grammar, "start: ("), "");
    assert_eq!(constraint(StructuredOutput::JsonObject(false)).unwrap(), Constraint::Free);
}

#[test]
fn simple_patterns_are_met_within_bounds() {
    let deep = format!("{}a{}", "(".repeat(17), ")".repeat(17));
    for (regex, expected) in [
        ("abc", "abc"),
        ("[0-9]{3}-[a-f]{2}", "000-aa"),
        ("(red|green)+", "red"),
        ("^a?b*c+$", "c"),
        (r"\d\.\w", "0.a"),
        ("(?:x{2,3}y){2}", "xxyxxy"),
        ("a{0}b", "b"),
        ("é|x", "é"),
        (&deep, ""),
        ("(a{500}){500}", ""),
    ] {
        assert_eq!(text(Regex, regex), expected, "{regex}");
    }
    assert_eq!(text(Grammar, "root ::= \"yes\" | \"no\""), "yes");
}

#[test]
fn schemas_are_met_by_small_instances() {
    for (schema, expected) in [
        (
            r#"{"type":"object","properties":{"a":{"type":"integer","minimum":5},"b":{}},"required":["a"]}"#,
            r#"{"a":5}"#,
        ),
        (r#"{"type":"array","items":{"type":"boolean"},"minItems":2}"#, "[true,true]"),
        (r#"{"type":"string","minLength":3}"#, r#""aaa""#),
        (r#"{"type":"string","pattern":"x{2}"}"#, r#""xx""#),
        (r#"{"enum":["u","v"]}"#, r#""u""#),
        (r#"{"const":null}"#, "null"),
        (r#"{"anyOf":[{"type":"number"},{"type":"null"}]}"#, "1"),
        (r#"{"type":["null","string"]}"#, "null"),
        ("true", "{}"),
        ("{}", "{}"),
    ] {
        assert_eq!(text(Json, schema), expected, "{schema}");
    }
}

#[test]
fn schemas_are_bounded() {
    let mut schema = r#"{"type":"integer"}"#.to_owned();
    for _ in 0..40 {
        schema = format!(r#"{{"type":"object","properties":{{"a":{schema}}},"required":["a"]}}"#);
    }
    let instance: Value = serde_json::from_str(&text(Json, &schema)).unwrap();
    assert!(instance.pointer(&"/a".repeat(16)).unwrap().is_null());
    let long = r#"{"type":"array","items":{},"minItems":1000000}"#;
    let instance: Value = serde_json::from_str(&text(Json, long)).unwrap();
    assert_eq!(instance.as_array().unwrap().len(), 64);
}

/// Arrays within arrays: each of them asks for as many as it can.
fn nested(arrays: u32, item: &str) -> String {
    (0..arrays).fold(item.to_owned(), |items, _| format!(r#"{{"items":{items},"minItems":64}}"#))
}

#[test]
fn an_instance_that_would_be_too_long_is_refused() {
    let long = "a".repeat(1 << 16);
    let constant = format!(r#"{{"const":"{long}"}}"#);
    // One array holds 64 values of 3 bytes; three of them hold 64³.
    for (schema, fits) in [
        (nested(2, r#"{"const":0}"#), true),
        (nested(3, r#"{"const":0}"#), true),
        (nested(3, r#"{"const":123456}"#), false),
        (nested(4, r#"{"const":0}"#), false),
        (nested(12, "{}"), false),
        (nested(1, &constant), false),
        (nested(0, &constant), true),
        (format!(r#"{{"properties":{{"{long}":{}}},"required":["{long}"]}}"#, nested(3, "{}")), true),
        (nested(1, &format!(r#"{{"properties":{{"{long}":{{}}}},"required":["{long}"]}}"#)), false),
    ] {
        let made = constraint(Json(schema.clone()));
        assert_eq!(made.is_ok(), fits, "{}", &schema[..schema.len().min(200)]);
        if !fits {
            assert_eq!(made.unwrap_err(), Code::InvalidArgument);
        }
    }
}
