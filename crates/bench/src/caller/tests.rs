//! What a request says, and when the parts of its reply are seen.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::config::{Api, ApiKey, BenchConfig, Lengths};
use crate::testing::{Answer, Asked, STREAM, TWO_TOKENS, config, run_in_memory};

/// Runs one request and compares its head (without what changes with versions) and its body.
async fn check_request(config: &BenchConfig, expect: Expect) {
    let (seen, stream) = (Arc::new(Mutex::new(String::new())), config.workload.stream);
    let asked = Arc::clone(&seen);
    let report = run_in_memory(config, move |Asked { head, body, .. }| {
        let kept = |line: &&str| !line.starts_with("user-agent") && !line.starts_with("content-length");
        let head: Vec<_> = head.trim_end().lines().filter(kept).collect();
        *asked.lock().unwrap() = format!("{}\n{body}", head.join("\n"));
        if stream { Answer::events(&STREAM) } else { Answer::json(TWO_TOKENS) }
    });
    assert!(report.await.ok());
    expect.assert_eq(&seen.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_generate_request_says_what_the_workload_asks() {
    let mut config = config(Api::Generate, false);
    config.target.model = Some("m".to_owned());
    config.target.api_key = Some(ApiKey::new("secret".to_owned()));
    let extra = json!({"cache_salt": "s", "sampling_params": {"temperature": 0}});
    config.target.extra_body = as_object(extra);
    check_request(&config, expect![[r#"
        POST /base/inference/v1/generate HTTP/1.1
        host: it.test
        accept: application/json
        authorization: Bearer secret
        content-type: application/json
        {"token_ids":[887,337,902,328],"model":"m","sampling_params":{"max_tokens":2,"ignore_eos":true,"temperature":0},"cache_salt":"s"}"#]])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_streaming_completions_request_says_what_the_workload_asks() {
    let mut config = config(Api::Completions, true);
    config.workload.ignore_eos = false;
    config.target.extra_body = as_object(json!({"stream_options": {"continuous_usage_stats": true}}));
    check_request(&config, expect![[r#"
        POST /base/v1/completions HTTP/1.1
        host: it.test
        accept: text/event-stream
        content-type: application/json
        {"prompt":[887,337,902,328],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#]])
    .await;
}

fn as_object(value: Value) -> serde_json::Map<String, Value> {
    let Value::Object(object) = value else { panic!("not an object: {value}") };
    object
}

#[tokio::test(start_paused = true)]
async fn the_times_of_a_stream_are_those_of_its_events() {
    let mut config = config(Api::Completions, true);
    config.workload.output_tokens = Lengths::fixed(4);
    let token = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
    let two_tokens_and_the_end = "data: {\"choices\":[{\"text\":\"ab\",\"finish_reason\":\"length\"}]}\n\n";
    let usage = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":4}}\n\n";
    let pieces = [": hello\n\n", token, token, two_tokens_and_the_end, usage, "data: [DONE]\n\n"];
    let answer = Answer { gap: Duration::from_millis(100), ..Answer::events(&pieces) };
    let report = run_in_memory(&config, move |_| answer.clone()).await;
    assert!(report.ok());
    let near = |ms: f64, expected: f64| (ms - expected).abs() < 5.0;
    let (ttft, itl) = (report.ttft_ms.unwrap(), report.itl_event_ms.unwrap());
    assert!(ttft.count == 1 && near(ttft.max, 200.0), "a comment is no token: {ttft:?}");
    assert!(itl.count == 2 && near(itl.p50, 100.0) && near(itl.max, 100.0), "{itl:?}");
    assert_eq!(report.itl_ms, None, "four tokens in three events, and no ids to say which has two");
    let (tpot, e2e) = (report.tpot_ms.unwrap(), report.e2e_ms.unwrap());
    assert!(tpot.count == 1 && near(tpot.max, 200.0 / 3.0), "three tokens after the first event: {tpot:?}");
    assert!(e2e.count == 1 && near(e2e.max, 600.0), "{e2e:?}");
}

#[tokio::test(start_paused = true)]
async fn a_unary_reply_has_no_times_but_its_end() {
    let answer = Answer { gap: Duration::from_millis(100), ..Answer::json(TWO_TOKENS) };
    let report = run_in_memory(&config(Api::Generate, false), move |_| answer.clone()).await;
    assert_eq!((report.ttft_ms, report.itl_ms, report.tpot_ms), (None, None, None));
    assert!((99.0..105.0).contains(&report.e2e_ms.unwrap().max));
}

#[tokio::test(start_paused = true)]
async fn a_gap_before_several_tokens_is_shared_by_them() {
    let mut config = config(Api::Generate, true);
    config.workload.output_tokens = Lengths::fixed(6);
    let event =
        |ids: &str, rest: &str| format!("data: {{\"choices\":[{{\"token_ids\":[{ids}]{rest}}}]}}\n\n");
    let last = event("3,4,5,6", ",\"finish_reason\":\"length\"");
    let pieces = [&*event("1", ""), &event("2", ""), &last, "data: [DONE]\n\n"];
    let answer = Answer { gap: Duration::from_millis(100), ..Answer::events(&pieces) };
    let report = run_in_memory(&config, move |_| answer.clone()).await;
    let (per_token, per_event) = (report.itl_ms.unwrap(), report.itl_event_ms.unwrap());
    assert_eq!((per_token.count, per_event.count), (5, 2), "the first token has no gap before it");
    let near = |ms: f64, expected: f64| (ms - expected).abs() < 3.0;
    assert!(near(per_token.p50, 25.0) && near(per_token.max, 100.0), "{per_token:?}");
    assert!(near(per_event.p50, 100.0) && near(per_event.max, 100.0), "{per_event:?}");
}
