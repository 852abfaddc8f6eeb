//! Large requests, many requests, slow readers, and what has to come through untouched.

mod transfer;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{COMPLETIONS, Call, GENERATE, Serve, assert_envelope, generate, served, wait_for};

/// A context that a prompt of 100,000 tokens fits into.
const LARGE: [&str; 4] = ["--max-model-len", "200000", "--max-num-batched-tokens", "200000"];

#[tokio::test]
async fn a_prompt_of_a_hundred_thousand_tokens_is_served_exactly() {
    let (_engine, serve) = served(&LARGE, &[]).await;
    let prompt: Vec<u32> = (0..100_000).map(|at| (at * 7 + at / 1000) % 1000).collect();
    let mut outputs = Vec::new();
    for stream in [false, true] {
        let body = json!({
            "token_ids": prompt,
            "sampling_params": { "max_tokens": 5, "temperature": 0 },
            "return_token_ids": true,
            "stream": stream,
            "stream_options": if stream { json!({ "include_usage": true }) } else { Value::Null },
        });
        let reply = serve.post(GENERATE, &body).send().await;
        assert_eq!(reply.status, 200);
        let chunks = reply.chunks();
        let ids = chunks.iter().find_map(|chunk| chunk["prompt_token_ids"].as_array()).unwrap();
        assert!(ids.iter().zip(&prompt).all(|(ours, theirs)| ours == theirs) && ids.len() == prompt.len());
        let usage = chunks.iter().find_map(|chunk| chunk["usage"].as_object()).unwrap();
        assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(100_000), &json!(5)));
        outputs.push(reply.tokens());

        let body = json!({ "prompt": prompt, "max_tokens": 5, "temperature": 0, "stream": stream, "return_token_ids": true });
        let reply = serve.post(COMPLETIONS, &body).send().await;
        assert_eq!(reply.status, 200);
        outputs.push(reply.tokens());
    }
    assert!(outputs.iter().all(|ids| ids.len() == 5 && *ids == outputs[0]), "{outputs:?}");
}

#[tokio::test]
async fn what_is_too_large_is_told_so_and_what_is_not_passes() {
    let (engine, serve) = served(&["--kv-connector"], &["--body-limit", "34MiB"]).await;
    let with = |mebibytes: usize, stream: bool| {
        let opaque = "x".repeat(mebibytes << 20);
        let params = "{\"max_tokens\":1}";
        Call::post(serve.address, GENERATE, &Value::Null).body(format!(
            "{{\"token_ids\":[1],\"sampling_params\":{params},\"request_id\":\"r\",\"stream\":{stream},\
             \"kv_transfer_params\":{{\"opaque\":\"{opaque}\"}}}}"
        ))
    };
    for (mebibytes, code) in [(33, "message_too_large"), (35, "body_too_large")] {
        for stream in [false, true] {
            let reply = with(mebibytes, stream).send().await;
            let error = assert_envelope(code, &reply);
            assert_eq!((reply.status, &error["code"]), (413, &json!(code)), "{error}");
            serve.assert_serves("next").await;
        }
    }
    assert!(engine.entries("r").await.is_empty());
    let reply = with(31, true).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(engine.entries("r").await.len(), 1);
}

/// A request on the generate route whose client reads nothing of its reply.
pub(crate) async fn sent_and_not_read(serve: &Serve, body: &Value) -> TcpStream {
    let (text, kind) = (body.to_string(), "content-type: application/json");
    let head = format!("POST {GENERATE} HTTP/1.1\r\nhost: tito\r\n{kind}\r\ncontent-length: {}", text.len());
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut stream = socket.connect(serve.address).await.unwrap();
    stream.write_all(format!("{head}\r\n\r\n{text}").as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_client_that_never_reads_is_left_and_nobody_else_notices() {
    let slow = ["--max-model-len", "100000", "--speed", "1", "--step-time", "1ms"];
    let (engine, serve) = served(&slow, &["--client-stall-timeout", "1s"]).await;
    let mut body = generate("slow", 90_000, true);
    body["sampling_params"]["logprobs"] = json!(20);
    body["sampling_params"]["n"] = json!(8);
    let reader = sent_and_not_read(&serve, &body).await;
    engine.wait_count("slow", "running", 8).await;

    let mut others = 0;
    wait_for("the slow reader's requests aborted", async || {
        serve.assert_serves("other").await;
        others += 1;
        let entries = engine.entries("slow").await;
        let left = entries.iter().filter(|entry| entry.cause() == Some("disconnected")).count();
        assert_eq!(entries.len(), 8, "every continuation is in the journal");
        (left == 8).then_some(())
    })
    .await;
    assert!(others > 1, "others were served meanwhile");
    serve.wait_metric("tito_frontend_stalled_clients_total", &[], 1.0).await;
    serve.wait_metric("tito_frontend_requests_in_flight", &[], 0.0).await;
    drop(reader);
}

#[tokio::test]
async fn three_hundred_streams_at_once_are_each_their_own() {
    const STREAMS: u32 = 300;
    let (engine, serve) = served(&[], &[]).await;
    let body = |number: u32, stream: bool| {
        let mut body = generate("many", 12, stream);
        body["token_ids"] = json!([number, number + 1, number + 2]);
        body["sampling_params"]["temperature"] = json!(0);
        body
    };
    engine.pause().await;
    let asked: Vec<_> =
        (0..STREAMS).map(|number| serve.post(GENERATE, &body(number, true)).begin()).collect();
    serve.wait_metric("tito_admission_in_flight", &[], f64::from(STREAMS)).await;
    engine.resume().await;
    for (number, asked) in (0..STREAMS).zip(asked) {
        let reply = asked.reply().await;
        assert_eq!((reply.status, reply.finish_reason().as_deref()), (200, Some("length")));
        assert_eq!(reply.tokens().len(), 12);
        if number % 10 == 0 {
            let alone = serve.post(GENERATE, &body(number, false)).send().await;
            assert_eq!(reply.tokens(), alone.tokens(), "prompt {number}");
        }
    }
    serve.wait_metric("tito_frontend_requests_in_flight", &[], 0.0).await;
    serve.wait_metric("tito_runtime_task_panics_total", &[], 0.0).await;
}

#[tokio::test]
async fn equal_request_ids_live_side_by_side() {
    let (engine, serve) = served(&[], &[]).await;
    let named = |stream| serve.generate("own", 4, stream).header("x-request-id", "same");
    engine.pause().await;
    let stays = [false, true].map(|stream| named(stream).begin());
    let leaves = named(true).begin();
    engine.wait_count("same", "queued", 3).await;
    drop(leaves);
    engine.wait_count("same", "aborted", 1).await;
    engine.resume().await;
    for asked in stays {
        let reply = asked.reply().await;
        assert_eq!((reply.status, reply.tokens().len()), (200, 4), "{}", reply.text());
        assert_eq!(reply.header("x-request-id"), Some("same"));
        assert_eq!(reply.chunks()[0]["request_id"], "same");
    }
    engine.wait_count("same", "finished", 2).await;
}

#[tokio::test]
async fn a_silent_stream_is_kept_alive_by_comments() {
    let (engine, serve) = served(&[], &["--sse-keep-alive", "20ms"]).await;
    engine.pause().await;
    let mut reply = serve.generate("r", 4, true).open().await;
    for _ in 0..3 {
        assert_eq!(reply.comment().await, ": ping");
    }
    engine.resume().await;
    let reply = reply.whole().await;
    assert_eq!((reply.status, reply.tokens().len()), (200, 4), "{}", reply.text());
    let busy = serve.generate("r", 4, true).send().await;
    assert_eq!(busy.tokens().len(), 4, "and comments are none of its events");
}
