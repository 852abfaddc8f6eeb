//! HTTP/2 clients that keep to the frames and not to their spirit: what they cost is bounded, others are served, and no
//! call stays at the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tito_engine::fake::last;
use tito_test_support::http::get_text;
use tito_test_support::wait::{wait_until, within};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::config::H2_STREAMS_MAX;
use crate::testing::engines::{Accepted, held, quick};
use crate::testing::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, HEADERS, MAX_CONCURRENT_STREAMS, PING,
    REFUSED_STREAM, RST_STREAM, frame, get, head, post, reset,
};
use crate::testing::{Running, run_held, setup};

/// The number of a client's stream, counted from 0.
fn stream(number: u32) -> u32 {
    2 * number + 1
}

/// Whether a client on a connection of its own is served.
async fn check_others_served(running: &Running) {
    assert_eq!(running.reply(get_text("/live")).await.status, 200);
}

/// Waits until nothing of any client is left.
async fn check_nothing_left(running: &Running) {
    running.wait_for_metric("tito_frontend_requests_in_flight{route=\"generate\"} 0").await;
    running.wait_for_metric("tito_frontend_connections_open 0").await;
    running.wait_for_metric("tito_runtime_task_panics_total 0").await;
}

/// Takes every request off the engine's hands, and counts those that came and those that were dropped.
fn watch(
    running: &Running,
    mut requests: UnboundedReceiver<Accepted>,
) -> (Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (came, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count_came, count_dropped) = (Arc::clone(&came), Arc::clone(&dropped));
    running.tasks.spawn("watch", tito_runtime::OnError::Log, async move {
        while let Some(accepted) = requests.recv().await {
            count_came.fetch_add(1, Ordering::Relaxed);
            // An error is the sign that it was dropped.
            let _ = accepted.dropped.await;
            count_dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    (came, dropped)
}

#[tokio::test]
async fn streams_that_are_reset_at_once_by_the_thousand_cost_few_calls_and_their_connection() {
    const STREAMS: u32 = 10_000;
    const AT_ONCE: u32 = 500;
    let (engine, requests) = held();
    let running = setup(engine).await.run();
    let (came, dropped) = watch(&running, requests);
    let mut client = Frames::connect(running.addr).await;
    for burst in 0..STREAMS / AT_ONCE {
        let numbers = burst * AT_ONCE..(burst + 1) * AT_ONCE;
        let bytes: Vec<u8> =
            numbers.map(stream).flat_map(|stream| [post(stream), reset(stream)].concat()).collect();
        client.raw.try_send(bytes).await;
        check_others_served(&running).await;
    }
    assert_eq!(client.away().await, Some(ENHANCE_YOUR_CALM));
    drop(client);
    check_nothing_left(&running).await;
    let calls = came.load(Ordering::Relaxed);
    wait_until("every call dropped", || dropped.load(Ordering::Relaxed) == calls).await;
    assert!(calls <= AT_ONCE as usize, "{calls} calls reached the engine");
}

#[tokio::test]
async fn streams_that_are_given_up_one_after_the_other_keep_their_connection_and_leave_no_call() {
    const STREAMS: u32 = 500;
    let (running, mut requests) = run_held().await;
    let mut client = Frames::connect(running.addr).await;
    for number in 0..STREAMS {
        client.send(post(stream(number))).await;
        let accepted = within("it reaches the engine", requests.recv()).await.unwrap();
        client.send(reset(stream(number))).await;
        within("it is dropped", accepted.dropped).await.expect_err("dropped");
    }
    client.send(get(stream(STREAMS), "/live")).await;
    let reply = client.next().await.expect("the connection lives");
    assert_eq!((reply.kind, reply.stream), (HEADERS, stream(STREAMS)));
    running.wait_for_metric("tito_frontend_connections_accepted_total 1").await;
    drop(client);
    check_nothing_left(&running).await;
}

#[tokio::test]
async fn the_stream_limit_is_advertised_and_held() {
    let (running, mut requests) = run_held().await;
    let mut client = Frames::connect(running.addr).await;
    assert_eq!(client.settings.setting(MAX_CONCURRENT_STREAMS), Some(H2_STREAMS_MAX));
    let bytes: Vec<u8> = (0..H2_STREAMS_MAX).map(stream).flat_map(post).collect();
    client.send(bytes).await;
    let mut accepted = Vec::new();
    while accepted.len() < H2_STREAMS_MAX as usize {
        accepted.push(within("it reaches the engine", requests.recv()).await.unwrap());
    }
    let beyond = stream(H2_STREAMS_MAX);
    // Without a body, whose frame would find no stream any more.
    let whole = END_HEADERS | END_STREAM;
    client.send(frame(HEADERS, whole, beyond, &head(true, "/inference/v1/generate"))).await;
    let refused = client.next().await.expect("the connection lives");
    assert_eq!((refused.kind, refused.stream, refused.number()), (RST_STREAM, beyond, REFUSED_STREAM));
    assert!(requests.try_recv().is_err(), "it did not reach the engine");
    check_others_served(&running).await;

    let first = accepted.swap_remove(0);
    first.deltas.send(Ok(last(0, &[1], 1))).unwrap();
    let ended = client.next().await.expect("the connection lives");
    assert_eq!((ended.kind, ended.stream), (HEADERS, stream(0)));
    running.wait_for_metric("tito_frontend_requests_in_flight{route=\"generate\"} 4095").await;
    client.send(post(beyond + 2)).await;
    within("there is room again", requests.recv()).await.unwrap();
    drop(client);
    for held in accepted {
        within("it is dropped", held.dropped).await.expect_err("dropped");
    }
    check_nothing_left(&running).await;
}

#[tokio::test]
async fn heads_without_an_end_cost_their_connection() {
    let running = setup(quick()).await.run();
    // A literal without a name in the table: `x: ` and a hundred bytes.
    let field: Vec<u8> = [&[0, 1, b'x', 100][..], &[b'v'; 100]].concat();
    for (first, more) in [(head(false, "/live"), field), (Vec::new(), Vec::new())] {
        let mut client = Frames::connect(running.addr).await;
        client.send(frame(HEADERS, 0, 1, &first)).await;
        let flood = frame(CONTINUATION, 0, 1, &more).repeat(20_000);
        client.raw.try_send(flood).await;
        assert_eq!(client.away().await, Some(ENHANCE_YOUR_CALM));
        check_others_served(&running).await;
    }
    check_nothing_left(&running).await;
}

#[tokio::test]
async fn pings_that_are_never_read_do_not_stop_others() {
    let running = setup(quick()).await.run();
    let mut client = Frames::connect(running.addr).await;
    let pings = frame(PING, 0, 0, &[7; 8]).repeat(1_000);
    for _ in 0..20 {
        client.send(&pings).await;
        check_others_served(&running).await;
    }
    client.send(get(1, "/live")).await;
    let reply = client.next().await.expect("the connection lives");
    assert_eq!((reply.kind, reply.stream), (HEADERS, 1));
    drop(client);
    check_nothing_left(&running).await;
}
