use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tito_types::{Delta, EngineError, FinishReason, PromptOutput, RawJson, StopCause, VersionSpan};

use super::*;
use crate::testing::{bind, end, events, fold, logprob, prompt, stream, text, tokens};
use crate::{Exchange, Segments, Usage};

/// A bound exchange for a prompt of three tokens.
fn exchange(sampling: &str, rest: &str) -> Box<dyn Exchange> {
    let body =
        format!("{{\"request_id\":\"r\",\"token_ids\":[1,2,3],\"sampling_params\":{{{sampling}}}{rest}}}");
    bind(&VllmGenerate, &body).unwrap().exchange
}

#[track_caller]
fn check_whole(rest: &str, deltas: Vec<Delta>, expected: &Expect) {
    let reply = fold(&mut *exchange("", rest), deltas).unwrap();
    serde_json::from_str::<Value>(&reply).unwrap();
    expected.assert_eq(&reply);
}

#[track_caller]
fn check_stream(rest: &str, deltas: Vec<Delta>, expected: &Expect) {
    let frames = stream(&mut *exchange("", &format!(",\"stream\":true{rest}")), deltas).unwrap();
    events(&frames);
    expected.assert_eq(&frames);
}

/// The end of choice 0 with everything an engine can report.
fn full_end() -> Delta {
    let span = |version: &str, start, end| VersionSpan { version: version.to_owned(), start, end };
    let mut delta = end(0, 2);
    let finish = delta.finish.as_mut().unwrap();
    finish.reason = FinishReason::Stop;
    finish.stop = Some(StopCause::Token(9));
    finish.cached_tokens = Some(2);
    finish.extras.kv_transfer_params = Some(RawJson::new("{\"z\":1,\n\"a\":2}".to_owned()));
    finish.extras.ec_transfer_params = Some(RawJson::new("{}".to_owned()));
    finish.extras.sampling_mask = Some(vec![vec![8, 9], vec![9]]);
    finish.extras.routed_experts = Some(RawJson::new("{\"data\":\"AA==\",\"shape\":[1,1,1]}".to_owned()));
    finish.extras.weight_versions = vec![span("v1", 0, 1), span("v2", 1, 2)];
    delta
}

/// Two tokens, each in a delta of its own, and this end.
fn two_tokens(last: Delta) -> Vec<Delta> {
    let first = Delta { prompt: Some(prompt(&[1, 2, 3], Vec::new())), ..tokens(0, &[8], "") };
    vec![first, tokens(0, &[9], ""), last]
}

#[test]
fn a_whole_reply_spells_every_null() {
    check_whole(
        "",
        two_tokens(end(0, 2)),
        &expect![[
            r#"{"request_id":"r","model":"m","created":1700000000,"choices":[{"index":0,"token_ids":[8,9],"logprobs":null,"finish_reason":"length","stop_reason":null,"sampling_mask":null,"routed_experts":null,"weight_versions":null}],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_token_id_logprobs":null,"mm_placeholders":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}"#
        ]],
    );
}

#[test]
fn a_whole_reply_carries_everything_the_engine_reports() {
    check_whole(
        ",\"return_token_ids\":true",
        two_tokens(full_end()),
        &expect![[r#"
        {"request_id":"r","model":"m","created":1700000000,"choices":[{"index":0,"token_ids":[8,9],"logprobs":null,"finish_reason":"stop","stop_reason":9,"sampling_mask":[[8,9],[9]],"routed_experts":{"data":"AA==","shape":[1,1,1]},"weight_versions":[{"version":"v1","start":0,"end":1},{"version":"v2","start":1,"end":2}]}],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":[1,2,3],"prompt_token_id_logprobs":null,"mm_placeholders":null,"kv_transfer_params":{"z":1,
        "a":2},"ec_transfer_params":{},"weight_version":"v2","metrics":null}"#]],
    );
}

#[test]
fn chunks_leave_absent_keys_out() {
    check_stream(
        "",
        two_tokens(end(0, 2)),
        &expect![[r#"
        data: {"request_id":"r","choices":[{"index":0,"token_ids":[8],"finish_reason":null}]}

        data: {"request_id":"r","choices":[{"index":0,"token_ids":[9],"finish_reason":null}]}

        data: {"request_id":"r","choices":[{"index":0,"token_ids":[],"finish_reason":"length"}]}

        data: [DONE]

    "#]],
    );
}

#[test]
fn the_last_chunk_carries_what_comes_at_the_end() {
    check_stream(
        ",\"return_token_ids\":true",
        two_tokens(full_end()),
        &expect![[r#"
        data: {"request_id":"r","choices":[{"index":0,"token_ids":[8],"finish_reason":null}],"prompt_token_ids":[1,2,3]}

        data: {"request_id":"r","choices":[{"index":0,"token_ids":[9],"finish_reason":null}]}

        data: {"request_id":"r","choices":[{"index":0,"token_ids":[],"finish_reason":"stop","stop_reason":9,"sampling_mask":[[8,9],[9]],"routed_experts":{"data":"AA==","shape":[1,1,1]},"weight_versions":[{"version":"v1","start":0,"end":1},{"version":"v2","start":1,"end":2}]}],"kv_transfer_params":{"z":1, "a":2},"ec_transfer_params":{},"weight_version":"v2"}

        data: [DONE]

    "#]],
    );
}

#[test]
fn usage_comes_at_the_end_or_with_every_chunk() {
    let usage = |options: &str| {
        let rest = format!(",\"stream\":true,\"stream_options\":{{\"include_usage\":true{options}}}");
        let events = events(&stream(&mut *exchange("", &rest), two_tokens(full_end())).unwrap());
        let lines = events.iter().map(|event| event["usage"].to_string());
        lines.collect::<Vec<_>>().join("\n")
    };
    expect![[r#"
        null
        null
        null
        {"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":2}}"#]].assert_eq(&usage(""));
    expect![[r#"
        {"prompt_tokens":3,"total_tokens":4,"completion_tokens":1}
        {"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}
        {"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":2}}
        {"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":2}}"#]].assert_eq(&usage(",\"continuous_usage_stats\":true"));
}

#[test]
fn choices_are_numbered_and_the_prompt_is_counted_once() {
    let deltas = vec![tokens(1, &[5], ""), tokens(0, &[6, 7], ""), end(1, 1), end(0, 2)];
    let mut exchange = exchange("\"n\":2", "");
    let reply: Value = serde_json::from_str(&fold(&mut *exchange, deltas).unwrap()).unwrap();
    assert_eq!([0, 1].map(|at| &reply["choices"][at]["token_ids"]), [&json!([6, 7]), &json!([5])]);
    let usage = Usage { prompt_tokens: 3, cached_tokens: Some(0), completion_tokens: 3 };
    assert_eq!(exchange.usage(), usage);
}

#[test]
fn the_first_top_logprob_is_the_sampled_token_and_none_is_lost() {
    let rivals = [(7, -0.5), (9, -1.5)];
    for (sampling, first, second) in [
        ("\"logprobs\":0", json!([8]), json!([9])),
        ("\"logprobs\":1", json!([8]), json!([9])),
        ("\"logprobs\":2", json!([8, 7, 9]), json!([9, 7])),
        ("\"logprobs\":-1", json!([8, 7, 9]), json!([9, 7])),
        ("\"logprob_token_ids\":[7,9]", json!([8, 7, 9]), json!([9, 7])),
    ] {
        let row = |token, value, rank| Delta {
            logprobs: vec![logprob(token, value, rank, &rivals)],
            ..tokens(0, &[token], "")
        };
        let deltas = vec![row(8, -2.5, 3), row(9, -1.5, 2), end(0, 2)];
        let reply: Value =
            serde_json::from_str(&fold(&mut *exchange(sampling, ""), deltas).unwrap()).unwrap();
        let content = reply["choices"][0]["logprobs"]["content"].as_array().unwrap();
        let top = |entry: &Value| {
            entry["top_logprobs"].as_array().unwrap().iter().map(|rival| rival["token_id"].clone()).collect()
        };
        assert_eq!(content.iter().map(top).collect::<Vec<Value>>(), [first, second], "{sampling}");
    }
}

#[test]
fn an_entry_has_both_spellings_of_its_token() {
    let row = Delta { logprobs: vec![logprob(8, f32::NEG_INFINITY, 0, &[])], ..tokens(0, &[8], "") };
    let frames = stream(&mut *exchange("\"logprobs\":1", ",\"stream\":true"), vec![row, end(0, 1)]).unwrap();
    expect![[r#"
        data: {"request_id":"r","choices":[{"index":0,"token_ids":[8],"logprobs":{"content":[{"token":"token_id:8","token_id":8,"logprob":-9999.0,"rank":null,"top_logprobs":[{"token":"token_id:8","token_id":8,"logprob":-9999.0,"rank":null}]}]},"finish_reason":null}]}

        data: {"request_id":"r","choices":[{"index":0,"token_ids":[],"logprobs":{"content":[]},"finish_reason":"length"}]}

        data: [DONE]

    "#]].assert_eq(&frames);
}

#[test]
fn logprobs_of_no_token_are_an_empty_list() {
    let mut aborted = end(0, 0);
    aborted.finish.as_mut().unwrap().reason = FinishReason::Abort;
    let reply = fold(&mut *exchange("\"logprobs\":1", ""), vec![aborted]).unwrap();
    assert!(reply.contains(r#""token_ids":[],"logprobs":{"content":[]},"finish_reason":"abort""#), "{reply}");
}

#[test]
fn prompt_logprobs_begin_with_the_prompts_own_token() {
    let rivals = [(3, -0.5), (20, -1.5)];
    let logprobs = vec![logprob(1, 0.0, 0, &[]), logprob(20, -1.5, 2, &rivals), logprob(3, -0.5, 1, &rivals)];
    let said = Box::new(PromptOutput { prompt_tokens: 3, token_ids: Vec::new(), logprobs });
    let first = Delta { prompt: Some(said), ..tokens(0, &[8], "") };
    let reply = fold(&mut *exchange("\"prompt_logprobs\":2", ""), vec![first, end(0, 1)]).unwrap();
    let begin = reply.find("\"prompt_logprobs\":").unwrap();
    let end = reply.find(",\"prompt_token_ids\"").unwrap();
    expect![[r#""prompt_logprobs":[null,{"20":{"logprob":-1.5,"rank":2,"decoded_token":"token_id:20"},"3":{"logprob":-0.5,"rank":1,"decoded_token":"token_id:3"}},{"3":{"logprob":-0.5,"rank":1,"decoded_token":"token_id:3"},"20":{"logprob":-1.5,"rank":2,"decoded_token":"token_id:20"}}]"#]].assert_eq(&reply[begin..end]);
}

#[test]
fn a_stop_reason_is_an_id_a_string_or_null() {
    for (stop, expected) in [
        (Some(StopCause::Eos(2)), "null"),
        (Some(StopCause::Token(2)), "2"),
        (Some(StopCause::Text("a\n\"b".to_owned())), r#""a\n\"b""#),
        (None, "null"),
    ] {
        let mut last = end(0, 0);
        last.finish.as_mut().unwrap().stop = stop;
        let reply = fold(&mut *exchange("", ""), vec![last]).unwrap();
        assert!(reply.contains(&format!("\"stop_reason\":{expected},")), "{reply}");
    }
}

#[test]
fn routed_experts_are_moved_unread() {
    let opaque = format!("{{\"data\":\"{}\"}}", "A".repeat(1 << 20));
    for stream in ["false", "true"] {
        let mut last = end(0, 0);
        let experts = &mut last.finish.as_mut().unwrap().extras.routed_experts;
        let moved = experts.insert(RawJson::new(opaque.clone())).as_str().as_ptr();
        let mut exchange = exchange("", &format!(",\"stream\":{stream}"));
        let mut out = Segments::default();
        if stream == "true" {
            exchange.frame(last, &mut out).unwrap();
        } else {
            exchange.fold(last).unwrap();
            out = exchange.finish().unwrap();
        }
        let parts = out.into_parts();
        assert!(parts.iter().any(|part| part.as_ptr() == moved), "stream: {stream}");
        let reply = String::from_utf8(parts.concat()).unwrap();
        assert!(reply.contains("\"routed_experts\":{\"data\":\"AAAA"));
    }
}

#[test]
fn what_breaks_the_contract_fails_the_request() {
    let token = || tokens(0, &[8], "");
    let of_prompt = |logprobs, delta| Delta { prompt: Some(prompt(&[1, 2, 3], logprobs)), ..delta };
    let nan = Delta { logprobs: vec![logprob(8, f32::NAN, 1, &[])], ..token() };
    let rivals = [(7, f32::NAN), (6, -2.0)];
    let nan_rival = Delta { logprobs: vec![logprob(8, -1.0, 1, &rivals)], ..token() };
    let other_choice = of_prompt(Vec::new(), tokens(1, &[8], ""));
    let one_of_three = of_prompt(vec![logprob(1, 0.0, 0, &[])], end(0, 0));
    for (sampling, deltas, expected) in [
        ("", vec![tokens(1, &[8], "")], "choice 1 of 1"),
        ("\"n\":2", vec![other_choice], "choice 1 speaks of the prompt, which its first choice does"),
        ("", vec![end(0, 0), token()], "output after the end of choice 0"),
        ("", vec![token(), end(0, 2)], "1 tokens came, the finish counts 2"),
        ("\"logprobs\":0", vec![token()], "0 log-probs for 1 tokens"),
        ("\"logprobs\":0", vec![nan], "a log-prob is NaN"),
        ("\"logprobs\":2", vec![nan_rival], "a log-prob is NaN"),
        ("\"prompt_logprobs\":0", vec![end(0, 0)], "nothing came about the prompt"),
        ("\"prompt_logprobs\":0", vec![one_of_three], "1 log-probs for 3 prompt tokens"),
    ] {
        let said = Err(EngineError::Protocol(expected.to_owned()));
        assert_eq!(fold(&mut *exchange(sampling, ""), deltas), said, "{sampling}");
    }
    let said = Err(EngineError::Protocol("nothing came about the prompt".to_owned()));
    assert_eq!(fold(&mut *exchange("", ",\"return_token_ids\":true"), vec![end(0, 0)]), said);
    assert_eq!(fold(&mut *exchange("", ""), vec![token()]), Err(EngineError::Truncated));
}

#[test]
fn a_chunk_that_fails_leaves_nothing_behind() {
    let mut exchange = exchange("\"logprobs\":0", ",\"stream\":true");
    let mut out = Segments::default();
    out.tail().extend_from_slice(b"before");
    let nan = Delta { logprobs: vec![logprob(8, f32::NAN, 1, &[])], ..tokens(0, &[8], "") };
    assert!(exchange.frame(nan, &mut out).is_err());
    assert_eq!(text(out), "before");
}

#[test]
fn a_delta_that_says_nothing_makes_no_chunk() {
    let mut exchange = exchange("", ",\"stream\":true");
    let mut out = Segments::default();
    exchange
        .frame(Delta { prompt: Some(prompt(&[1, 2, 3], Vec::new())), ..Delta::default() }, &mut out)
        .unwrap();
    assert!(out.is_empty());
}
