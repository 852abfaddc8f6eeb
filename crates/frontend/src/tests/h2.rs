use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tito_engine::fake::last;
use tito_runtime::{OnError, Stage};
use tito_test_support::wait::within;
use tokio::net::TcpStream;

use crate::Exit;
use crate::testing::engines::{endless, opaque, quick};
use crate::testing::{Running, is_dropped, run_held, run_with, setup};

/// An HTTP/2 client; its connection runs among the frontend's tasks.
async fn connect(running: &Running) -> SendRequest<Full<Bytes>> {
    let tcp = TcpStream::connect(running.addr).await.unwrap();
    let (sender, connection) = Builder::new(TokioExecutor::new()).handshake(TokioIo::new(tcp)).await.unwrap();
    running.tasks.spawn("client", OnError::Log, async {
        // It ends with an error when the server cuts it off, as some tests want it to.
        let _ = connection.await;
        Ok(())
    });
    sender
}

fn post(body: &'static str) -> Request<Full<Bytes>> {
    let request = Request::post("http://t/inference/v1/generate").version(Version::HTTP_2);
    request.header("content-type", "application/json").body(Full::from(body)).unwrap()
}

#[tokio::test]
async fn requests_share_a_connection() {
    let running = setup(quick()).await.run();
    let client = connect(&running).await;
    for body in ["{}", r#"{"stream":true}"#, "{"] {
        let response = client.clone().send_request(post(body)).await.unwrap();
        assert!(response.headers().contains_key("x-request-id"));
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert!(!bytes.is_empty());
    }
    running.wait_for_metric("tito_frontend_connections_accepted_total 1").await;
}

#[tokio::test]
async fn a_large_reply_arrives_whole_with_its_length() {
    let blob = format!("\"{}\"", "z".repeat(3 << 20));
    let running = setup(opaque(blob.clone())).await.run();
    let response = connect(&running).await.send_request(post("{}")).await.unwrap();
    let length: usize = response.headers()["content-length"].to_str().unwrap().parse().unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(bytes.len(), length);
    assert!(bytes.ends_with(format!("{blob}}}").as_bytes()));
}

#[tokio::test]
async fn a_stream_that_is_given_up_ends_at_the_engine_and_leaves_the_connection() {
    let (running, mut requests) = run_held().await;
    let client = connect(&running).await;
    for body in ["{}", r#"{"stream":true}"#] {
        let mut sending = Box::pin(client.clone().send_request(post(body)));
        let accepted = tokio::select! {
            accepted = requests.recv() => accepted.unwrap(),
            _ = &mut sending => requests.recv().await.unwrap(),
        };
        drop(sending);
        is_dropped(accepted.dropped).await;
    }
    running.wait_for_metric("tito_frontend_connections_open 1").await;
}

#[tokio::test]
async fn a_stream_that_is_not_read_is_reset_in_time() {
    let (engine, _, dropped) = endless(1_000);
    let running = run_with(engine, |config| config.timeouts.client_stall = Duration::from_millis(300)).await;
    let client = connect(&running).await;
    let response = client.clone().send_request(post(r#"{"stream":true}"#)).await.unwrap();
    is_dropped(dropped).await;
    running.wait_for_metric("tito_frontend_stalled_clients_total 1").await;
    response.into_body().collect().await.expect_err("the stream is reset");
}

#[tokio::test]
async fn draining_lets_streams_finish() {
    let (running, mut requests) = run_held().await;
    let mut client = connect(&running).await;
    let mut sending = Box::pin(client.send_request(post("{}")));
    let accepted = tokio::select! {
        accepted = requests.recv() => accepted.unwrap(),
        _ = &mut sending => panic!("nothing was answered yet"),
    };
    running.next_stage(Stage::Unready).await;
    running.next_stage(Stage::Draining).await;
    accepted.deltas.send(Ok(last(0, &[1], 1))).unwrap();
    let response = within("the reply", sending).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(!response.into_body().collect().await.unwrap().to_bytes().is_empty());
    drop(client);
    assert_eq!(running.ended().await, Exit::Clean);
}
