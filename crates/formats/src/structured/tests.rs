use crate::OpenAiCompletions;
use crate::testing::{bind, outcome};

#[test]
fn a_constraint_is_one_kind_of_a_shape_that_engines_compile() {
    for (constraint, expected) in [
        (
            "{}",
            "Invalid structured_outputs: must hold exactly one of json, regex, choice, grammar, json_object and structural_tag, got 0",
        ),
        (
            r#"{"json":{},"regex":"a"}"#,
            "Invalid structured_outputs: must hold exactly one of json, regex, choice, grammar, json_object and structural_tag, got 2",
        ),
        (
            r#"{"json_object":false}"#,
            "Invalid structured_outputs: must hold exactly one of json, regex, choice, grammar, json_object and structural_tag, got 0",
        ),
        (r#"{"json":"{}","json_object":false}"#, "ok"),
        (
            r#"{"json":"\"abc\""}"#,
            "Invalid structured_outputs.json: must be a JSON object, or a string that holds one",
        ),
        (
            r#"{"json":"{"}"#,
            "Invalid structured_outputs.json: must be a JSON object, or a string that holds one",
        ),
        (r#"{"choice":[]}"#, "Invalid structured_outputs.choice: must not be empty"),
        (r#"{"grammar":" "}"#, "Invalid structured_outputs.grammar: must not be blank"),
        (
            r#"{"structural_tag":"{}"}"#,
            "Invalid structured_outputs.structural_tag: must hold structures, each with begin, schema and end, and triggers, a list of strings",
        ),
        (
            r#"{"structural_tag":{"structures":[],"triggers":[]}}"#,
            "Invalid structured_outputs.structural_tag: must hold at least one structure",
        ),
        (
            r#"{"structural_tag":{"structures":[{"begin":"a","schema":{},"end":""}],"triggers":["b"]}}"#,
            "Invalid structured_outputs.structural_tag: must have a trigger that each structure's begin starts with",
        ),
        (
            r#"{"structural_tag":{"structures":[{"begin":"a","schema":1,"end":""}],"triggers":["a"]}}"#,
            "Invalid structured_outputs.structural_tag: must have a JSON object as each structure's schema",
        ),
    ] {
        let body = format!("{{\"prompt\":[1],\"structured_outputs\":{constraint}}}");
        assert_eq!(outcome(&bind(&OpenAiCompletions, &body)), expected, "{constraint}");
    }
}
