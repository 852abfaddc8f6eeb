use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tito_types::{Delta, FinishReason, RawJson, StopCause};

use super::*;
use crate::testing::{bind, end, events, fold, logprob, outcome, prompt, rows, stream, text, tokens};
use crate::{Exchange, Segments, Usage};

fn bound(rest: &str) -> Bound {
    bind(&OpenAiCompletions, &format!("{{\"request_id\":\"r\"{rest}}}")).unwrap()
}

fn exchange(rest: &str) -> Box<dyn Exchange> {
    bound(rest).exchange
}

#[track_caller]
fn check_bind(members: &str, expected: &str) {
    let shown: String = members.chars().take(80).collect();
    assert_eq!(outcome(&bind(&OpenAiCompletions, &format!("{{{members}}}"))), expected, "{shown}");
}

const ONE: &str = ",\"prompt\":[1,2,3]";

fn two_tokens() -> Vec<Delta> {
    let rivals = [(7, -0.5), (8, -1.5)];
    let first = Delta {
        prompt: Some(prompt(&[1, 2, 3], Vec::new())),
        logprobs: vec![logprob(8, -1.5, 2, &rivals)],
        ..tokens(0, &[8], "he")
    };
    let second = Delta { logprobs: vec![logprob(9, -2.5, 3, &rivals)], ..tokens(0, &[9], "") };
    let mut last = Delta { text: "llo".to_owned(), ..end(0, 2) };
    last.finish.as_mut().unwrap().extras.kv_transfer_params = Some(RawJson::new("{\"a\":1}".to_owned()));
    vec![first, second, last]
}

#[track_caller]
fn check_whole(rest: &str, deltas: Vec<Delta>, expected: &Expect) {
    let reply = fold(&mut *exchange(rest), deltas).unwrap();
    serde_json::from_str::<Value>(&reply).unwrap();
    expected.assert_eq(&reply);
}

#[track_caller]
fn check_stream(rest: &str, deltas: Vec<Delta>, expected: &Expect) {
    let frames = stream(&mut *exchange(&format!("{rest},\"stream\":true")), deltas).unwrap();
    events(&frames);
    expected.assert_eq(&frames);
}

#[test]
fn a_whole_reply_spells_every_null() {
    check_whole(
        ONE,
        two_tokens(),
        &expect![[
            r#"{"id":"cmpl-r","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":"hello","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":null},"service_tier":null,"system_fingerprint":null,"kv_transfer_params":{"a":1},"ec_transfer_params":null}"#
        ]],
    );
}

#[test]
fn a_whole_reply_carries_ids_and_logprobs_when_asked() {
    let rest = format!("{ONE},\"return_token_ids\":true,\"logprobs\":2");
    check_whole(
        &rest,
        two_tokens(),
        &expect![[
            r#"{"id":"cmpl-r","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":"hello","logprobs":{"text_offset":null,"token_logprobs":[-1.5,-2.5],"tokens":["token_id:8","token_id:9"],"top_logprobs":[{"token_id:8":-1.5,"token_id:7":-0.5},{"token_id:9":-2.5,"token_id:7":-0.5,"token_id:8":-1.5}]},"finish_reason":"length","stop_reason":null,"token_ids":[8,9],"prompt_logprobs":null,"prompt_token_ids":[1,2,3],"routed_experts":null}],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":null},"service_tier":null,"system_fingerprint":null,"kv_transfer_params":{"a":1},"ec_transfer_params":null}"#
        ]],
    );
}

#[test]
fn chunks_leave_absent_keys_out() {
    check_stream(
        ONE,
        two_tokens(),
        &expect![[r#"
        data: {"id":"cmpl-r","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":"he","finish_reason":null}]}

        data: {"id":"cmpl-r","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":"","finish_reason":null}]}

        data: {"id":"cmpl-r","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":"llo","finish_reason":"length"}],"kv_transfer_params":{"a":1}}

        data: [DONE]

    "#]],
    );
}

#[test]
fn chunks_carry_ids_logprobs_and_usage_when_asked() {
    let options = "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}";
    let rest = format!("{ONE},\"return_token_ids\":true,\"logprobs\":0,{options}");
    check_stream(
        &rest,
        two_tokens(),
        &expect![[r#"
        data: {"id":"cmpl-r","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":"he","logprobs":{"text_offset":null,"token_logprobs":[-1.5],"tokens":["token_id:8"],"top_logprobs":[{"token_id:8":-1.5,"token_id:7":-0.5}]},"finish_reason":null,"token_ids":[8],"prompt_token_ids":[1,2,3]}],"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1}}

        data: {"id":"cmpl-r","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":"","logprobs":{"text_offset":null,"token_logprobs":[-2.5],"tokens":["token_id:9"],"top_logprobs":[{"token_id:9":-2.5,"token_id:7":-0.5,"token_id:8":-1.5}]},"finish_reason":null,"token_ids":[9]}],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}}

        data: {"id":"cmpl-r","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":"llo","logprobs":{"text_offset":null,"token_logprobs":[],"tokens":[],"top_logprobs":[]},"finish_reason":"length","token_ids":[]}],"kv_transfer_params":{"a":1},"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}

        data: {"id":"cmpl-r","object":"text_completion","created":1700000000,"model":"m","choices":[],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}

        data: [DONE]

    "#]],
    );
}

#[test]
fn choices_of_several_prompts_are_numbered_through() {
    let mut bound = bound(",\"prompt\":[[1,2],[3]],\"n\":2,\"return_token_ids\":true,\"prompt_logprobs\":0");
    let prompts: Vec<_> = bound.requests.iter().map(|request| (request.prompt.to_vec(), request.n)).collect();
    assert_eq!(prompts, [(vec![1, 2], 2), (vec![3], 2)]);
    let of_prompt = |ids: &[u32]| prompt(ids, ids.iter().map(|id| logprob(*id, -1.0, 1, &[])).collect());
    let mut deltas: Vec<_> =
        (0..4).map(|at| Delta { token_ids: vec![at], text: at.to_string(), ..end(at, 1) }).collect();
    deltas[0].prompt = Some(of_prompt(&[1, 2]));
    deltas[2].prompt = Some(of_prompt(&[3]));
    deltas[0].finish.as_mut().unwrap().cached_tokens = Some(1);
    deltas.swap(0, 3);
    let reply: Value = serde_json::from_str(&fold(&mut *bound.exchange, deltas).unwrap()).unwrap();
    let row = json!({ "2": { "logprob": -1.0, "rank": 1, "decoded_token": "token_id:2" } });
    let [first, second] = [json!([[1, 2], [null, row]]), json!([[3], [null]])];
    for (at, said) in [&first, &first, &second, &second].into_iter().enumerate() {
        let choice = &reply["choices"][at];
        assert_eq!((&choice["index"], &choice["text"]), (&json!(at), &json!(at.to_string())));
        assert_eq!(json!([choice["prompt_token_ids"], choice["prompt_logprobs"]]), *said, "choice {at}");
    }
    assert_eq!(reply["choices"].as_array().unwrap().len(), 4);
    let usage = Usage { prompt_tokens: 3, cached_tokens: Some(1), completion_tokens: 4 };
    assert_eq!(bound.exchange.usage(), usage);
}

#[test]
fn a_prompt_is_a_list_of_ids_or_of_such_lists() {
    for [prompt, expected] in rows(
        r#"
        [1] | ok
        [[1]] | ok
        [ [1], [2,3] ] | ok
        [] | Invalid prompt: must hold at least one token id
        [[1],[]] | Invalid prompt[1]: must hold at least one token id
        "hi" | NotExpressible prompt: text prompts are not served yet; send token ids
        ["hi"] | NotExpressible prompt: text prompts are not served yet; send token ids
        null | Invalid prompt: is required
        {} | Invalid prompt: must be a list, got an object
        [1,-1] | Invalid prompt[1]: must be a token id: a whole number from 0 to 4294967295, got -1
        [[1],[2,1.0]] | Invalid prompt[1][1]: must be a token id: a whole number from 0 to 4294967295, got 1.0
        [[1],2] | Invalid prompt[1]: must be a list, got 2
        "#,
    ) {
        check_bind(&format!("\"prompt\":{prompt}"), expected);
    }
    let list = |count: usize, item: &str| format!("[{}]", vec![item; count].join(","));
    for (prompt, n, expected) in [
        (list(1024, "[1]"), 4, "ok"),
        (list(1024, "[1]"), 5, "Invalid n: must be at most 4096 over all prompts, got 5 for each of 1024"),
        (list(1025, "[1]"), 1, "Invalid prompt: must hold at most 1024 prompts, got 1025"),
        (
            format!("[[1],{}]", list(100, "1")),
            1,
            "ContextLength prompt[1]: this model's maximum context length is 100 tokens; the prompt has 100",
        ),
    ] {
        check_bind(&format!("\"prompt\":{prompt},\"n\":{n}"), expected);
    }
}

#[test]
fn a_response_format_becomes_a_grammar() {
    use tito_types::StructuredOutput::{JsonObject, JsonSchema, StructuralTag};
    let tag = r#"{"type":"structural_tag","structures":[{"begin":"<a>","schema":{},"end":"</a>"}],"triggers":["<"]}"#;
    let schema = r#"{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"b":1, "a":2}}}"#;
    for (format, expected) in [
        (r#"{"type":"text"}"#, None),
        (r#"{"type":"json_object"}"#, Some(JsonObject)),
        (schema, Some(JsonSchema(r#"{"b":1, "a":2}"#.to_owned()))),
        (tag, Some(StructuralTag(tag.to_owned()))),
    ] {
        let bound = bound(&format!("{ONE},\"response_format\":{format}"));
        assert_eq!(bound.requests[0].sampling.structured, expected, "{format}");
    }
    for [format, expected] in rows(
        r#"
        {} | Invalid response_format.type: is required
        {"type":"yaml"} | Invalid response_format.type: must be text, json_object, json_schema or structural_tag
        {"type":"json_schema"} | Invalid response_format.json_schema: is required
        {"type":"json_schema","json_schema":{}} | Invalid response_format.json_schema.schema: is required
        {"type":"structural_tag"} | Invalid response_format: must hold structures, each with begin, schema and end, and triggers, a list of strings
        {"type":"structural_tag","format":{}} | NotExpressible response_format.format: is not supported: only structural tags made of structures and triggers are possible
        {"type":"json_object"},"structured_outputs":{"json_object":true} | Invalid response_format: cannot be combined with structured_outputs
        "#,
    ) {
        check_bind(&format!("\"prompt\":[1],\"response_format\":{format}"), expected);
    }
}

#[test]
fn best_of_must_equal_n() {
    for [best_of, expected] in rows(
        r"
        2 | ok
        null | ok
        3 | NotExpressible best_of: is not supported: it must equal n, 2; got 3
        0 | Invalid best_of: must be a whole number from 1 to 4294967295, got 0
        ",
    ) {
        check_bind(&format!("\"prompt\":[1],\"n\":2,\"best_of\":{best_of}"), expected);
    }
}

#[test]
fn a_session_is_called_the_same_in_a_header_and_a_body() {
    let [fits, long] = [256, 257].map(|chars| "s".repeat(chars));
    for (session, valid) in [
        ("s", true),
        ("~!", true),
        (fits.as_str(), true),
        ("", false),
        (&long, false),
        ("a b", false),
        ("\u{e9}", false),
        ("a\u{7f}", false),
    ] {
        let refused = "Invalid session_id: must be 1 to 256 visible ASCII characters";
        let member = format!("\"session_id\":{}", json!(session));
        check_bind(&format!("\"prompt\":[1],{member}"), if valid { "ok" } else { refused });
        assert_eq!(crate::parse_session(session.as_bytes()).is_some(), valid, "{session:?}");
    }
}

#[test]
fn logprob_ids_need_a_count_beside_them() {
    let alone = r#""prompt":[1],"logprob_token_ids":[5]"#;
    check_bind(alone, "Invalid logprob_token_ids: needs logprobs beside it");
    check_bind(r#""prompt":[1],"logprob_token_ids":[5,6],"logprobs":1"#, "ok");
}

#[test]
fn text_that_looks_like_an_event_stays_inside_its_string() {
    let nasty = "a\n\ndata: [DONE]\n\n\"\\\u{1}é";
    let deltas = vec![tokens(0, &[8], nasty), end(0, 1)];
    let frames = stream(&mut *exchange(&format!("{ONE},\"stream\":true")), deltas).unwrap();
    assert_eq!(events(&frames)[0]["choices"][0]["text"], nasty);
}

#[test]
fn a_stop_string_is_the_stop_reason() {
    let mut last = end(0, 0);
    let finish = last.finish.as_mut().unwrap();
    finish.reason = FinishReason::Stop;
    finish.stop = Some(StopCause::Text("END".to_owned()));
    for reply in [fold(&mut *exchange(ONE), vec![last.clone()]), stream(&mut *exchange(ONE), vec![last])] {
        assert!(reply.unwrap().contains(r#""finish_reason":"stop","stop_reason":"END""#));
    }
}

#[test]
fn a_chunk_that_fails_leaves_nothing_behind() {
    let mut exchange = exchange(&format!("{ONE},\"logprobs\":0,\"stream\":true"));
    let mut out = Segments::default();
    let nan = Delta { logprobs: vec![logprob(8, f32::NAN, 1, &[])], ..tokens(0, &[8], "a") };
    assert!(exchange.frame(nan, &mut out).is_err());
    assert_eq!(text(out), "");
}
