use std::time::Duration;

use tito_engine::fake::last;
use tito_test_support::http::{Raw, Reply, assert_envelope, get_text, post_text};
use tito_test_support::wait::within;

use crate::testing::engines::{held, opaque, quick};
use crate::testing::{run_held, run_with, setup};

const GENERATE: &str = "/inference/v1/generate";
const LIMIT: usize = 1 << 20;
/// What ends a silent client. A busy machine must not be taken for one.
const SHORT: Duration = Duration::from_secs(1);

#[track_caller]
fn check_failure(reply: &Reply, status: u16, code: &str) {
    let error = assert_envelope(code, reply);
    assert_eq!((reply.status, &error["code"]), (status, &code.into()), "{error}");
}

#[tokio::test]
async fn a_body_that_says_it_is_too_long_is_refused_before_it_is_asked_for() {
    let running = run_with(quick(), |config| config.limits.body_bytes = LIMIT).await;
    let head = post_text(GENERATE, "")
        .replace("Content-Length: 0", "Expect: 100-continue\r\nContent-Length: 1048577");
    check_failure(&running.reply(head).await, 413, "body_too_large");
}

#[tokio::test]
async fn a_client_that_sends_all_of_a_refused_body_still_reads_the_reply() {
    let body = "x".repeat(16 * LIMIT);
    let chunked = post_text(GENERATE, "").replace("Content-Length: 0", "Transfer-Encoding: chunked")
        + &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for (text, status, code) in [
        (post_text(GENERATE, &body), 413, "body_too_large"),
        (chunked, 413, "body_too_large"),
        (post_text(GENERATE, &body).replace("application/json", "text/plain"), 415, "unsupported_media_type"),
        (post_text("/nowhere", &body), 404, "route_not_found"),
    ] {
        let running = run_with(quick(), |config| config.limits.body_bytes = LIMIT).await;
        check_failure(&running.reply(text).await, status, code);
    }
}

#[tokio::test]
async fn a_body_of_just_the_limit_passes() {
    let body = "{}".to_owned() + &" ".repeat(LIMIT - 2);
    let running = run_with(quick(), |config| config.limits.body_bytes = LIMIT).await;
    let mut client = running.client(post_text(GENERATE, &body)).await;
    assert_eq!(client.reply().await.status, 200);
    client.send(post_text(GENERATE, "{}")).await;
    assert_eq!(client.reply().await.status, 200, "on the same connection");
}

#[tokio::test]
async fn too_many_and_too_long_headers_are_refused_in_the_envelope() {
    let running = setup(quick()).await.run();
    let many = "X-H: v\r\n".repeat(70);
    let long = format!("X-Long: {}\r\n", "v".repeat(40 << 10));
    for headers in [many, long] {
        let text = get_text("/live").replace("Host: t\r\n", &format!("Host: t\r\n{headers}"));
        check_failure(&running.reply(text).await, 431, "headers_too_large");
    }
}

#[tokio::test]
async fn what_the_http_library_will_not_read_gets_a_bare_status() {
    let running = setup(quick()).await.run();
    let headers = |text: &str| get_text("/live").replace("Host: t\r\n", text);
    for (text, status) in [
        (headers(&"X-H: v\r\n".repeat(150)), "431"),
        (headers(&format!("X-Long: {}\r\n", "v".repeat(300 << 10))), "431"),
        (get_text(&format!("/{}", "p".repeat(70 << 10))), "414"),
    ] {
        let mut client = Raw::connect(running.addr).await;
        client.try_send(text).await;
        let answer = String::from_utf8(client.rest().await).unwrap();
        // What is still on its way when the connection is closed can cost the client the answer.
        assert!(answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert_eq!(running.reply(get_text("/live")).await.status, 200);
}

#[tokio::test]
async fn a_body_that_stops_coming_is_given_up() {
    let running = run_with(quick(), |config| config.timeouts.client_stall = SHORT).await;
    let text = post_text(GENERATE, "{}").replace("Content-Length: 2", "Content-Length: 20");
    check_failure(&running.reply(text).await, 408, "body_timeout");
}

#[tokio::test]
async fn silence_ends_a_connection() {
    let running = run_with(quick(), |config| {
        config.timeouts.header = SHORT;
        config.timeouts.idle = SHORT;
    })
    .await;
    for said in ["", "GET /live HT"] {
        let mut client = running.client(said).await;
        assert!(client.rest().await.is_empty(), "after {said:?}");
    }
    let mut client = running.client(get_text("/live")).await;
    assert_eq!(client.reply().await.status, 200);
    client.send("GET /li").await;
    assert!(client.rest().await.is_empty(), "after a request and a half");
}

#[tokio::test]
async fn a_request_outlasts_the_idle_timeout() {
    let (engine, mut requests) = held();
    let running = run_with(engine, |config| {
        config.timeouts.header = SHORT;
        config.timeouts.idle = SHORT;
    })
    .await;
    let mut client = running.client(post_text(GENERATE, "{}")).await;
    let accepted = requests.recv().await.unwrap();
    // A second client is timed out meanwhile, twice over.
    for _ in 0..2 {
        assert!(Raw::connect(running.addr).await.rest().await.is_empty());
    }
    accepted.deltas.send(Ok(last(0, &[1], 1))).unwrap();
    assert_eq!(client.reply().await.status, 200);
}

#[tokio::test]
async fn at_the_connection_limit_the_next_client_waits_its_turn() {
    let running = run_with(quick(), |config| config.limits.connections = 1).await;
    let mut first = running.client(get_text("/live")).await;
    assert_eq!(first.reply().await.status, 200);
    let mut second = running.client(get_text("/live")).await;
    first.send(get_text("/live")).await;
    assert_eq!(first.reply().await.status, 200);
    running.wait_for_metric("tito_frontend_connections_accepted_total 1").await;
    drop(first);
    assert_eq!(second.reply().await.status, 200);
}

#[tokio::test]
async fn what_is_not_http_ends_its_connection_and_nothing_else() {
    let running = setup(quick()).await.run();
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for bytes in [&hello[..], b"\0\0\0\0\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n"] {
        let mut client = running.client(bytes).await;
        let answer = String::from_utf8(client.rest().await).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert_eq!(running.reply(post_text(GENERATE, "{}")).await.status, 200);
}

#[tokio::test]
async fn odd_requests_are_answered_in_the_envelope() {
    let running = setup(quick()).await.run();
    for (line, status) in [
        ("OPTIONS * HTTP/1.1", 404),
        ("GET //live HTTP/1.1", 404),
        ("GET /live?x=%ff HTTP/1.1", 200),
        ("BREW /live HTTP/1.1", 405),
        ("GET /v1/models/..%2f..%2fetc HTTP/1.1", 404),
    ] {
        let reply = running.reply(format!("{line}\r\nHost: t\r\n\r\n")).await;
        assert_eq!(reply.status, status, "{line}");
        assert!(reply.header("x-request-id").is_some(), "{line}");
        if status >= 400 {
            assert_envelope(line, &reply);
        }
    }
}

#[tokio::test]
async fn a_body_that_waits_to_be_asked_for_is_asked_for() {
    let running = setup(quick()).await.run();
    let text = post_text(GENERATE, "{}").replace("Host: t", "Host: t\r\nExpect: 100-continue");
    let (head, body) = text.split_at(text.len() - 2);
    let mut client = running.client(head).await;
    assert!(client.head().await.starts_with("HTTP/1.1 100 "));
    client.send(body).await;
    assert_eq!(client.reply().await.status, 200);
}

#[tokio::test]
async fn pipelined_requests_run_one_after_the_other() {
    let (running, mut requests) = run_held().await;
    let one = post_text(GENERATE, r#"{"request_id":"one"}"#);
    let mut client = running.client(one.clone() + &one.replace("\"one", "\"two")).await;
    let first = requests.recv().await.unwrap();
    assert!(requests.try_recv().is_err());
    first.deltas.send(Ok(last(0, &[1], 1))).unwrap();
    assert!(client.reply().await.text().contains("one"));
    let second = within("the second request", requests.recv()).await.unwrap();
    second.deltas.send(Ok(last(0, &[2], 1))).unwrap();
    assert!(client.reply().await.text().contains("two"));
}

#[tokio::test]
async fn http_1_0_is_answered_and_closed() {
    let running = setup(quick()).await.run();
    let mut client =
        running.client(post_text(GENERATE, r#"{"stream":true}"#).replace("HTTP/1.1", "HTTP/1.0")).await;
    let text = String::from_utf8(client.rest().await).unwrap();
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
    assert!(text.ends_with("data: [8]\n\ndata: [DONE]\n\n"), "{text}");
}

#[tokio::test]
async fn a_large_opaque_value_arrives_byte_for_byte() {
    let blob = format!("\"{}\"", "0123456789abcdef".repeat(50 << 16));
    let running = setup(opaque(blob.clone())).await.run();
    let reply = running.reply(post_text(GENERATE, r#"{"request_id":"r"}"#)).await;
    let expected = format!(r#"{{"request_id":"r","tokens":[8],"routed_experts":{blob}}}"#);
    assert!(reply.body == expected.as_bytes(), "the bytes changed");
}
