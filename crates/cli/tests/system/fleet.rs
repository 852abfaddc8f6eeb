//! Several engines, engines that come and go, and engines that fail.

mod failures;
mod identity;
mod loss;
mod models;
mod spread;

use crate::harness::{MockEngine, Serve, wait_for};

/// Two engines of one model and a server in front of them.
pub(crate) async fn pair(args: &[&str]) -> (MockEngine, MockEngine, Serve) {
    let (one, other) = (MockEngine::start(&[]).await, MockEngine::start(&[]).await);
    let serve = Serve::ready(&[&one.url(), &other.url()], args).await;
    serve.wait_metric("tito_fleet_worker_ready", &[], 2.0).await;
    (one, other, serve)
}

/// How many of a client's requests are on each engine, once so many have arrived.
async fn arrived(id: &str, one: &MockEngine, other: &MockEngine, count: usize) -> [usize; 2] {
    wait_for(&format!("{count} requests {id} at the engines"), async || {
        let found = [one.entries(id).await.len(), other.entries(id).await.len()];
        (found[0] + found[1] == count).then_some(found)
    })
    .await
}

/// The engine that a client's only request is on, and the other one.
async fn holding<'a>(
    id: &str,
    one: &'a mut MockEngine,
    other: &'a mut MockEngine,
) -> [&'a mut MockEngine; 2] {
    if arrived(id, one, other, 1).await == [1, 0] { [one, other] } else { [other, one] }
}
