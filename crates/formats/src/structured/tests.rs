use crate::OpenAiCompletions;
use crate::testing::{bind, outcome, rows};

#[test]
fn a_constraint_is_one_kind_of_a_shape_that_engines_compile() {
    for [constraint, expected] in rows(
        r#"
        {} | : must hold exactly one of json, regex, choice, grammar, json_object and structural_tag, got 0
        {"json":{},"regex":"a"} | : must hold exactly one of json, regex, choice, grammar, json_object and structural_tag, got 2
        {"json_object":false} | : must hold exactly one of json, regex, choice, grammar, json_object and structural_tag, got 0
        {"json":"\"abc\""} | .json: must be a JSON object, or a string that holds one
        {"json":"{"} | .json: must be a JSON object, or a string that holds one
        {"choice":[]} | .choice: must not be empty
        {"grammar":" "} | .grammar: must not be blank
        {"structural_tag":"{}"} | .structural_tag: must hold structures, each with begin, schema and end, and triggers, a list of strings
        {"structural_tag":{"structures":[],"triggers":[]}} | .structural_tag: must hold at least one structure
        {"structural_tag":{"structures":[{"begin":"a","schema":{},"end":""}],"triggers":["b"]}} | .structural_tag: must have a trigger that each structure's begin starts with
        {"structural_tag":{"structures":[{"begin":"a","schema":1,"end":""}],"triggers":["a"]}} | .structural_tag: must have a JSON object as each structure's schema
        "#,
    ) {
        check(constraint, &format!("Invalid structured_outputs{expected}"));
    }
    check(r#"{"json":"{}","json_object":false}"#, "ok");
}

#[track_caller]
fn check(constraint: &str, expected: &str) {
    let body = format!("{{\"prompt\":[1],\"structured_outputs\":{constraint}}}");
    assert_eq!(outcome(&bind(&OpenAiCompletions, &body)), expected, "{constraint}");
}
