//! Transfer parameters: opaque on the way out and on the way back.

use serde_json::{Value, json};

use crate::fields::{ROUTES, body, sampled};
use crate::harness::{Reply, served};

fn ask(path: &str, id: &str, params: &Value, stream: bool) -> Value {
    let more = sampled(
        path,
        &json!({ "max_tokens": 1 }),
        &json!({ "request_id": id, "kv_transfer_params": params }),
    );
    body(path, stream, &more)
}

/// The engine's side of the hand-off, which a stream has in its last chunk.
fn returned(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let chunks = reply.chunks();
    let last = chunks.iter().rev().find(|chunk| !chunk["choices"][0]["finish_reason"].is_null()).unwrap();
    last["kv_transfer_params"].clone()
}

/// Equal as JSON values: a protobuf Struct has only doubles and no order.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

#[tokio::test]
async fn a_hand_off_goes_from_one_engine_to_the_other_as_it_is() {
    let (prefill, first) = served(&["--kv-connector"], &[]).await;
    let (decode, second) = served(&["--kv-connector"], &[]).await;
    let asks = json!({
        "do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
        "ours": { "numbers": [0, -1, 1.5, 1_744_949_106.478_873_7, 9_007_199_254_740_991_u64], "text": "é\u{0}\"", "none": null, "list": [] },
    });
    for (path, stream) in ROUTES.into_iter().flat_map(|path| [(path, false), (path, true)]) {
        prefill.forget().await;
        decode.forget().await;
        let reply = first.post(path, &ask(path, "p", &asks, stream)).send().await;
        let sent = prefill.entries("p").await[0].message();
        assert!(same(&sent["kv"]["kv_transfer_params"], &asks), "{sent}");

        let handed = returned(&reply);
        assert_eq!(handed["do_remote_prefill"], json!(true), "{handed}");
        assert!(handed["remote_port"].is_u64(), "whole numbers are whole again: {handed}");
        let mut handed_on = handed.clone();
        handed_on["extra"] = json!({ "of": "the orchestrator" });
        let reply = second.post(path, &ask(path, "d", &handed_on, stream)).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let received = decode.entries("d").await[0].message();
        assert!(same(&received["kv"]["kv_transfer_params"], &handed_on), "{received}");
    }
}

#[tokio::test]
async fn a_hand_off_that_would_kill_an_engine_never_reaches_one() {
    let (engine, serve) = served(&["--kv-connector"], &[]).await;
    let nowhere = json!({ "do_remote_prefill": true, "remote_block_ids": [[1]], "remote_engine_id": "e" });
    for path in ROUTES {
        let reply = serve.post(path, &ask(path, "r", &nowhere, false)).send().await;
        assert_eq!((reply.status, reply.error_code().as_deref()), (400, Some("invalid_value")));
    }
    assert!(engine.journal().await.is_empty());
    serve.assert_serves("next").await;
}
