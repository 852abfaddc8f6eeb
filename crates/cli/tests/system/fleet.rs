//! Several engines, engines that come and go, and engines that fail.

mod failures;
mod frames;
mod identity;
mod loss;
mod models;
mod spread;

use crate::harness::{MockEngine, Serve};

/// Two engines of one model and a server in front of them.
async fn pair(args: &[&str]) -> (MockEngine, MockEngine, Serve) {
    let (one, other) = (MockEngine::start(&[]).await, MockEngine::start(&[]).await);
    let serve = Serve::ready(&[&one.url(), &other.url()], args).await;
    serve.wait_metric("tito_fleet_worker_ready", &[], 2.0).await;
    (one, other, serve)
}

/// The engine that a client's request is on, and the other one.
async fn holding<'a>(
    id: &str,
    one: &'a mut MockEngine,
    other: &'a mut MockEngine,
) -> [&'a mut MockEngine; 2] {
    let on_one = !one.entries(id).await.is_empty();
    assert_ne!(on_one, !other.entries(id).await.is_empty(), "{id} is on exactly one of them");
    if on_one { [one, other] } else { [other, one] }
}
