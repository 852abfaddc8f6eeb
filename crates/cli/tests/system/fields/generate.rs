//! `docs/generate.md`.

use serde_json::json;

use super::{Case, Subject, common, media};
use crate::docs;
use crate::harness::GENERATE;

pub(super) fn subject() -> Subject {
    let sampling = common::sampling().into_iter().map(|case| case.below("sampling_params"));
    Subject {
        path: GENERATE,
        plain: json!({ "token_ids": [11, 12, 13], "sampling_params": { "max_tokens": 3 } }),
        cases: own().into_iter().chain(common::envelope()).chain(sampling).chain(media::cases()).collect(),
        rows: docs::generate(),
    }
}

fn own() -> Vec<Case> {
    let case = Case::new;
    let ids = ("/response/output_candidates", json!({ "token_ids": { "ids": [7, 8] } }));
    let logprobs = ("/response/output_logprobs", json!(true));
    vec![
        case("token_ids", json!([1, 2, 999]), vec![("/token_ids", json!({ "ids": [1, 2, 999] }))]),
        case("sampling_params", json!({ "max_tokens": 3, "seed": 1 }), vec![("/sampling/seed", json!("1"))]),
        case("sampling_params.logprob_token_ids", json!([7, 8]), vec![logprobs.clone(), ids.clone()]),
        case("sampling_params.logprob_token_ids", json!([7, 8]), vec![ids])
            .with("sampling_params.logprobs", json!(2)),
        case("sampling_params.cache_salt", json!("inner"), vec![("/kv/cache_salt", json!("inner"))]),
        case("reasoning_ended", json!(false), vec![("/engine_reasoning_gate/reasoning_ended", json!(false))]),
        case(
            "reasoning_parser_kwargs",
            json!({ "chat_template_kwargs": { "a": 1 } }),
            vec![("/engine_reasoning_gate/chat_template_kwargs", json!({ "a": 1.0 }))],
        ),
        case(
            "reasoning_parser_kwargs.chat_template_kwargs",
            json!({ "enable_thinking": true }),
            vec![("/engine_reasoning_gate/chat_template_kwargs", json!({ "enable_thinking": true }))],
        ),
    ]
}
