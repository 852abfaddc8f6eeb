use tito_test_support::port::ReservedPort;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tonic::transport::Endpoint;

use super::*;
use crate::connect::tests::control::{Answers, serve};

fn orders(port: u16) -> Orders {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).expect("a loopback address");
    let control = ControlClient::new(endpoint.connect_lazy());
    Orders { worker: WorkerId::new("w"), control }
}

/// What comes of each order.
async fn all(orders: &Orders) -> [Result<(), EngineError>; 3] {
    let paused = orders.is_paused().await.map(|_| ());
    [paused, orders.pause_and_clear().await, orders.resume().await]
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_says_nothing_is_given_up_in_time() {
    // The kernel accepts; nobody answers.
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let orders = orders(silent.local_addr().expect("bound").port());
    let deadline = || Err(EngineError::Deadline(WorkerId::new("w")));
    for (order, limit) in [
        (orders.resume(), ANSWER_TIMEOUT),
        (orders.pause_and_clear(), PAUSE_TIMEOUT),
        (orders.is_paused().map(|asked| asked.map(|_| ())).boxed(), ANSWER_TIMEOUT),
    ] {
        let started = Instant::now();
        assert_eq!((order.await, started.elapsed().as_secs()), (deadline(), limit.as_secs()));
    }
}

#[tokio::test]
async fn an_engine_that_does_not_know_an_order_says_so() {
    let answers = Answers { servers: Vec::new(), sources: None, adapters: Err(12) };
    let (port, _serving) = serve(answers).await;
    for outcome in all(&orders(port)).await {
        assert!(matches!(outcome, Err(EngineError::Unsupported(_))), "{outcome:?}");
    }
}

#[tokio::test]
async fn an_engine_that_is_not_there_is_not_reached() {
    let gone = ReservedPort::any();
    for outcome in all(&orders(gone.port())).await {
        assert!(matches!(outcome, Err(EngineError::Connect(..))), "{outcome:?}");
    }
}
