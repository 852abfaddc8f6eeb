//! Fields that both routes have: inside `sampling_params`, or beside the prompt.

use serde_json::{Value, json};

use super::{Case, UNARY};

/// Where the engine expects whole numbers of 64 bits, protobuf's JSON writes text.
fn text(number: i64) -> Value {
    json!(number.to_string())
}

/// How tokens are drawn and when generation ends.
pub(super) fn sampling() -> Vec<Case> {
    let case = Case::new;
    vec![
        case("n", json!(3), vec![]).messages(3),
        case("temperature", json!(0.25), vec![("/temperature", json!(0.25))]),
        case("temperature", json!(0), vec![("/temperature", json!(0.0))]),
        case("top_p", json!(0.5), vec![("/sampling/top_p", json!(0.5))]),
        case("top_k", json!(7), vec![("/sampling/top_k", json!(7))]),
        case("top_k", json!(-1), vec![]),
        case("top_k", json!(0), vec![]),
        case("min_p", json!(0.125), vec![("/sampling/min_p", json!(0.125))]),
        case("seed", json!(42), vec![("/sampling/seed", text(42))]),
        case("seed", json!(i64::MIN), vec![("/sampling/seed", text(i64::MIN))]),
        case("presence_penalty", json!(0.5), vec![("/decoding/presence_penalty", json!(0.5))]),
        case("frequency_penalty", json!(-1.5), vec![("/decoding/frequency_penalty", json!(-1.5))]),
        case("repetition_penalty", json!(1.25), vec![("/decoding/repetition_penalty", json!(1.25))]),
        case(
            "logit_bias",
            json!({ "7": 2.5, "40": -100 }),
            vec![("/decoding/logit_bias", json!({ "7": 2.5, "40": -100.0 }))],
        ),
        case("allowed_token_ids", json!([7, 8, 9]), vec![("/decoding/allowed_token_ids", json!([7, 8, 9]))]),
        case(
            "bad_words_token_ids",
            json!([[7], [8, 9]]),
            vec![("/decoding/bad_words_token_ids", json!([{ "ids": [7] }, { "ids": [8, 9] }]))],
        ),
        case("watermarking", json!(false), vec![("/watermarking", json!(false))]),
        case("max_tokens", json!(5), vec![("/stopping/max_new_tokens", json!(5))]),
        case("min_tokens", json!(2), vec![("/stopping/min_new_tokens", json!(2))]),
        case("stop", json!("xyz"), vec![("/stopping/stop_strings", json!(["xyz"]))]),
        case("stop", json!(["xyz", "é"]), vec![("/stopping/stop_strings", json!(["xyz", "é"]))]),
        case("stop_token_ids", json!([900, 901]), vec![("/stopping/stop_token_ids", json!([900, 901]))]),
        case(
            "include_stop_str_in_output",
            json!(true),
            vec![("/stopping/include_stop_strings", json!(true))],
        ),
        case("ignore_eos", json!(true), vec![("/stopping/ignore_eos", json!(true))]),
        case("skip_special_tokens", json!(false), vec![("/response/skip_special_tokens", json!(false))]),
        case("thinking_token_budget", json!(64), vec![("/stopping/thinking_token_budget", text(64))]),
        case("thinking_token_budget", json!(-1), vec![("/stopping/thinking_token_budget", text(-1))]),
        case("skip_reading_prefix_cache", json!(true), vec![("/kv/bypass_prefix_cache", json!(true))]),
        case("routed_experts_prompt_start", json!(1), vec![]),
    ]
    .into_iter()
    .chain(logprobs())
    .chain(structured())
    .collect()
}

fn logprobs() -> Vec<Case> {
    let (output, prompt) = ("/response/output_logprobs", "/response/prompt_logprobs");
    let prompt_case = |value: i64, changes| Case::new("prompt_logprobs", json!(value), changes).only(UNARY);
    let top = |n: u32| json!({ "top_n": n });
    vec![
        Case::new("logprobs", json!(0), vec![(output, json!(true))]),
        Case::new("logprobs", json!(2), vec![(output, json!(true)), ("/response/output_candidates", top(2))]),
        prompt_case(0, vec![(prompt, json!(true))]),
        prompt_case(3, vec![(prompt, json!(true)), ("/response/prompt_candidates", top(3))]),
    ]
}

fn structured() -> Vec<Case> {
    let tag = json!({
        "structures": [{ "begin": "<a>", "schema": { "type": "object" }, "end": "</a>" }],
        "triggers": ["<a"],
    });
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    let kind =
        |name: &str, value: Value, changes| Case::new(name, value, changes).below("structured_outputs");
    vec![
        Case::new(
            "structured_outputs",
            json!({ "regex": "[0-9]+" }),
            vec![("/decoding/regex", json!("[0-9]+"))],
        ),
        kind("json", schema.clone(), vec![("/decoding/json", json!(schema.to_string()))]),
        kind(
            "json",
            json!("{\"type\": \"object\"}"),
            vec![("/decoding/json", json!("{\"type\": \"object\"}"))],
        ),
        kind("json_object", json!(true), vec![("/decoding/json_object", json!(true))]),
        kind("regex", json!("a|b"), vec![("/decoding/regex", json!("a|b"))]),
        kind("choice", json!(["yes", "no"]), vec![("/decoding/choice", json!({ "choices": ["yes", "no"] }))]),
        kind("grammar", json!("root ::= \"a\""), vec![("/decoding/grammar", json!("root ::= \"a\""))]),
        kind("structural_tag", tag.clone(), vec![("/decoding/structural_tag", json!(tag.to_string()))]),
    ]
}

/// What surrounds the prompt.
pub(super) fn envelope() -> Vec<Case> {
    let case = Case::new;
    let params = json!({ "do_remote_decode": true, "remote_port": 5600, "nested": { "a": [1, null, "b"] } });
    let on_wire = json!({
        "do_remote_decode": true,
        "remote_port": 5600.0,
        "nested": { "a": [1.0, null, "b"] },
    });
    vec![
        case("model", json!("alias"), vec![("/model", json!("alias"))]),
        case("stream", json!(true), vec![]).only(super::STREAM),
        case("stream_options", json!({ "include_usage": true }), vec![]).only(super::STREAM),
        case("stream_options.include_usage", json!(true), vec![]).only(super::STREAM),
        case("stream_options.continuous_usage_stats", json!(true), vec![])
            .with("stream_options.include_usage", json!(true))
            .only(super::STREAM),
        case("request_id", json!("mine"), vec![]),
        case("return_token_ids", json!(true), vec![("/response/prompt_token_ids", json!(true))]),
        case("cache_salt", json!("tenant-1"), vec![("/kv/cache_salt", json!("tenant-1"))]),
        case("priority", json!(-5), vec![("/priority", json!(-5))]),
        case("kv_transfer_params", params.clone(), vec![("/kv/kv_transfer_params", on_wire.clone())]),
        case("ec_transfer_params", params, vec![("/kv/ec_transfer_params", on_wire)]),
    ]
}
