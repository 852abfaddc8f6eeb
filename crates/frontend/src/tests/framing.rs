//! Requests whose end two readers could see in different places, as they reach us over a proxy that was fooled.
//!
//! Every case is one write: the odd request, what an attacker hides behind it, and a last request. The statuses of all
//! replies up to the end of the connection show what was taken for a request, and the engine counts what reached it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tito_engine::fake::{Fake, Script, last};
use tito_test_support::http::{Raw, post_text};

use crate::testing::setup;

const GENERATE: &str = "/inference/v1/generate";
/// A whole request that must reach the engine only where the one before it ended.
const HIDDEN: &str =
    "POST /inference/v1/generate HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";

/// An engine that answers at once, and how many requests it has had.
fn counting() -> (Fake, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let engine = Fake::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Script { items: vec![Ok(last(0, &[8], 1))], ..Script::default() }
    });
    (engine, calls)
}

/// The statuses of all replies in what a connection said.
fn statuses(said: &str) -> Vec<u16> {
    let heads = said.split("HTTP/1.1 ").skip(1);
    heads.map(|head| head[..3].parse().expect("a status")).collect()
}

/// Sends `text` and then [`HIDDEN`] in one write; `expected` are the statuses of all replies, and how many requests the
/// engine has had.
async fn check(text: &str, expected: (&[u16], usize)) {
    let (engine, calls) = counting();
    let running = setup(engine).await.run();
    let mut client = Raw::connect(running.addr).await;
    client.try_send(format!("{text}{HIDDEN}")).await;
    let said = String::from_utf8(client.rest().await).expect("text");
    let found = (statuses(&said), calls.load(Ordering::Relaxed));
    assert_eq!((found.0.as_slice(), found.1), expected, "{text:?} was answered {said:?}");
    drop(client);
    running.wait_for_metric("tito_frontend_connections_open 0").await;
}

/// A request whose framing headers are these, with a body.
fn framed(headers: &str, body: &str) -> String {
    format!("POST {GENERATE} HTTP/1.1\r\nHost: t\r\n{headers}\r\n{body}")
}

const CHUNKS: &str = "2\r\n{}\r\n0\r\n\r\n";
/// The request is refused by the HTTP library or by us, and the connection closed: nothing after it is a request.
const REFUSED: (&[u16], usize) = (&[400], 0);
/// It is served, and the connection closed.
const SERVED_ALONE: (&[u16], usize) = (&[200], 1);
/// It is served and so is what follows, as two requests of one client.
const SERVED_BOTH: (&[u16], usize) = (&[200, 200], 2);

#[tokio::test]
async fn the_plain_forms_are_served_and_keep_the_connection() {
    check(&framed("Content-Length: 2\r\n", "{}"), SERVED_BOTH).await;
    check(&framed("Transfer-Encoding: chunked\r\n", CHUNKS), SERVED_BOTH).await;
    check(&framed("transfer-encoding:\tCHUNKED \r\n", CHUNKS), SERVED_BOTH).await;
    check(&framed("Content-Length: 2\r\nContent-Length: 2\r\n", "{}"), SERVED_BOTH).await;
}

#[tokio::test]
async fn a_length_beside_chunks_is_not_believed_and_ends_the_connection() {
    for length in ["2", "4", "12", "170"] {
        let length = format!("Content-Length: {length}\r\n");
        let chunked = "Transfer-Encoding: chunked\r\n";
        check(&framed(&format!("{length}{chunked}"), CHUNKS), SERVED_ALONE).await;
        check(&framed(&format!("{chunked}{length}"), CHUNKS), SERVED_ALONE).await;
    }
}

#[tokio::test]
async fn lengths_that_disagree_or_are_no_numbers_are_refused() {
    for lengths in ["2\r\nContent-Length: 3", "2, 2", "+2", "-2", "0x2", "2 2", "", "99999999999999999999"] {
        check(&framed(&format!("Content-Length: {lengths}\r\n"), "{}"), REFUSED).await;
    }
}

#[tokio::test]
async fn transfer_codings_other_than_one_chunked_are_refused() {
    for last in ["gzip", "identity", "xchunked", "chunked, gzip", "chunked;q=1", "\"chunked\""] {
        check(&framed(&format!("Transfer-Encoding: {last}\r\n"), CHUNKS), REFUSED).await;
    }
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n";
    check(&framed(twice, CHUNKS), REFUSED).await;
    // The end is known here, but what is in the chunks would have to be undone, or was chunked twice.
    let other = (&[415][..], 0);
    for codings in ["gzip, chunked", "chunked, chunked", "identity, chunked", ", chunked"] {
        check(&framed(&format!("Transfer-Encoding: {codings}\r\n"), CHUNKS), other).await;
    }
    let twice = "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n";
    check(&framed(twice, CHUNKS), other).await;
    let old = framed("Transfer-Encoding: chunked\r\n", CHUNKS).replace("HTTP/1.1", "HTTP/1.0");
    check(&old, REFUSED).await;
}

#[tokio::test]
async fn chunks_that_are_malformed_end_the_request_and_the_connection() {
    for chunks in [
        "G\r\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "0x2\r\n{}\r\n0\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",
        "10000000000000002\r\n{}\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}}\r\n0\r\n\r\n",
        "2\r\n{}0\r\n\r\n",
        "2\n{}\n0\n\n",
        "2;a\n=b\r\n{}\r\n0\r\n\r\n",
    ] {
        check(&framed("Transfer-Encoding: chunked\r\n", chunks), REFUSED).await;
    }
    let extension = format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(17 << 10));
    check(&framed("Transfer-Encoding: chunked\r\n", &extension), REFUSED).await;
    // Extensions and trailers mean nothing to us, and where they end is certain.
    check(&framed("Transfer-Encoding: chunked\r\n", "2;a=\"b\"\r\n{}\r\n0\r\nX-T: v\r\n\r\n"), SERVED_BOTH)
        .await;
    check(&framed("Transfer-Encoding: chunked\r\n", "002\r\n{}\r\n000\r\n\r\n"), SERVED_BOTH).await;
}

#[tokio::test]
async fn a_chunk_that_claims_more_than_a_body_may_have_is_refused_by_its_size() {
    let (engine, calls) = counting();
    let running = setup(engine).await.run();
    let mut client = running.client(framed("Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFF\r\n{}")).await;
    client.close_write().await;
    let said = String::from_utf8(client.rest().await).expect("text");
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    running.wait_for_metric("tito_frontend_connections_open 0").await;
}

#[tokio::test]
async fn heads_that_readers_split_differently_are_refused() {
    let get = |line: &str, headers: &str| format!("{line}\r\n{headers}\r\n");
    for text in [
        // A folded line, and a header name that ends in a blank.
        get("GET /live HTTP/1.1", "Host: t\r\nX-A: b\r\n c: d\r\n"),
        get("GET /live HTTP/1.1", "Host: t\r\n Content-Length: 2\r\n"),
        framed("Content-Length : 2\r\n", "{}"),
        framed("Transfer-Encoding : chunked\r\n", CHUNKS),
        framed("Content-Length\r\n", "{}"),
        framed(": 2\r\n", "{}"),
        // Control characters in a value.
        framed("Transfer-Encoding: \u{b}chunked\r\n", CHUNKS),
        framed("X-A: b\0\r\n", ""),
        framed("X-A: b\rContent-Length: 2\r\n", ""),
        // Request lines of more or fewer than three words.
        get("GET  /live HTTP/1.1", "Host: t\r\n"),
        get("GET /live  HTTP/1.1", "Host: t\r\n"),
        get("GET /live", "Host: t\r\n"),
        get("GET /live HTTP/1.1 HTTP/1.1", "Host: t\r\n"),
        get("GET /live HTTP/1.2", "Host: t\r\n"),
        get("GET\t/live HTTP/1.1", "Host: t\r\n"),
    ] {
        check(&text, REFUSED).await;
    }
}

#[tokio::test]
async fn several_hosts_are_refused_and_end_the_connection() {
    for hosts in ["Host: t\r\nHost: other\r\n", "Host: t\r\nHost: t\r\n", "Host: t\r\nX: y\r\nhOST: o\r\n"] {
        let text = format!("POST {GENERATE} HTTP/1.1\r\n{hosts}Content-Length: 2\r\n\r\n{{}}");
        check(&text, REFUSED).await;
        let text = format!("GET /live HTTP/1.1\r\n{hosts}\r\n");
        check(&text, REFUSED).await;
    }
}

#[tokio::test]
async fn line_ends_and_targets_that_all_readers_take_alike_are_served() {
    let (live, both) = (|line: &str| format!("{line}\r\nHost: t\r\n\r\n"), (&[200, 200][..], 1));
    check("GET /live HTTP/1.1\nHost: t\n\n", both).await;
    check("\r\n\r\nGET /live HTTP/1.1\r\nHost: t\r\n\r\n", both).await;
    check(&live("GET http://t/live HTTP/1.1"), both).await;
    check(&live("GET http://other.example:81/live HTTP/1.1"), both).await;
    let absolute = post_text(&format!("http://other.example{GENERATE}"), "{}");
    check(&absolute, SERVED_BOTH).await;
    let not_found = (&[404, 200][..], 1);
    check(&live("GET /live/../inference/v1/generate HTTP/1.1"), not_found).await;
    check(&live("GET /%69nference/v1/generate HTTP/1.1"), not_found).await;
    check(&live("CONNECT t:80 HTTP/1.1"), not_found).await;
}

#[tokio::test]
async fn a_request_refused_for_its_head_leaves_the_connection_to_the_next_one() {
    let post = |path: &str, headers: &str, body: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: t\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    for (text, status) in [
        (post("/nowhere", "", "{}"), 404),
        (post("/live", "", "{}"), 405),
        (post(GENERATE, "Content-Type: text/plain\r\n", "{}"), 415),
        (post(GENERATE, "Content-Encoding: gzip\r\n", "{}"), 415),
        (post(GENERATE, "X-Session-Id: a b\r\n", "{}"), 400),
        (post(GENERATE, "Expect: tea\r\n", "{}"), 417),
        (post(GENERATE, "", "{"), 400),
        (post(GENERATE, "", ""), 400),
    ] {
        check(&text, (&[status, 200], 1)).await;
    }
}
