//! `docs/completions.md`.

use serde_json::json;

use super::{Case, Subject, common};
use crate::docs;
use crate::harness::COMPLETIONS;

pub(super) fn subject() -> Subject {
    Subject {
        path: COMPLETIONS,
        plain: json!({ "prompt": [11, 12, 13], "max_tokens": 3 }),
        cases: own().into_iter().chain(common::envelope()).chain(common::sampling()).collect(),
        rows: docs::completions(),
    }
}

fn own() -> Vec<Case> {
    let case = Case::new;
    let schema = json!({ "type": "object" });
    let structures = json!([{ "begin": "<a>", "schema": { "type": "object" }, "end": "</a>" }]);
    // The engine gets the whole format object: its `type` asks for a structural tag and is a part of it.
    let tag = json!({ "type": "structural_tag", "structures": structures, "triggers": ["<a"] });
    let wrapped = json!({ "name": "n", "schema": schema });
    let format = |field: &str| format!("response_format{field}");
    let asks_for_schema =
        |field: &str, value| case(&format(field), value, vec![("/decoding/json", json!(schema.to_string()))]);
    vec![
        case("prompt", json!([1, 2, 999]), vec![("/token_ids", json!({ "ids": [1, 2, 999] }))]),
        case("prompt", json!([[5, 6], [5, 6]]), vec![("/token_ids", json!({ "ids": [5, 6] }))]).messages(2),
        case("best_of", json!(1), vec![]),
        case("session_id", json!("s1"), vec![("/session_id", json!("s1"))]),
        case(
            "logprob_token_ids",
            json!([7, 8]),
            vec![("/response/output_candidates", json!({ "token_ids": { "ids": [7, 8] } }))],
        )
        .with("logprobs", json!(1)),
        case(
            "response_format",
            json!({ "type": "json_object" }),
            vec![("/decoding/json_object", json!(true))],
        ),
        case("response_format.type", json!("text"), vec![]),
        asks_for_schema("", json!({ "type": "json_schema", "json_schema": wrapped })),
        case(
            "response_format.type",
            json!("json_schema"),
            vec![("/decoding/json", json!(schema.to_string()))],
        )
        .with("response_format.json_schema", wrapped.clone())
        .with("response_format.type", json!("text")),
        asks_for_schema(".json_schema", wrapped)
            .with("response_format.type", json!("json_schema"))
            .with("response_format.json_schema", json!({ "schema": { "type": "array" } })),
        asks_for_schema(".json_schema.schema", schema.clone())
            .with("response_format.type", json!("json_schema"))
            .with("response_format.json_schema.schema", json!({ "type": "array" })),
        case(
            "response_format.structures",
            structures.clone(),
            vec![("/decoding/structural_tag", json!(tag.to_string()))],
        )
        .with("response_format.type", json!("structural_tag"))
        .with(
            "response_format.structures",
            json!([{ "begin": "<ab>", "schema": { "type": "array" }, "end": "</ab>" }]),
        )
        .with("response_format.triggers", json!(["<a"])),
        case(
            "response_format.triggers",
            json!(["<a"]),
            vec![("/decoding/structural_tag", json!(tag.to_string()))],
        )
        .with("response_format.type", json!("structural_tag"))
        .with("response_format.structures", structures)
        .with("response_format.triggers", json!(["<"])),
    ]
}
