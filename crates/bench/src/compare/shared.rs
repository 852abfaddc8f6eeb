//! Whether the targets of a comparison are served by the same engines.
//!
//! Two things tell: the addresses that the URLs resolve to, and `GET /workers`, where `tito serve` lists the engine
//! processes behind it. A target that answers neither way is taken to stand alone, so the absence of a warning proves
//! nothing about other servers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use tokio::time::timeout;

use crate::caller::read_whole;
use crate::config::Target;
use crate::connection::{Network, Pool};
use crate::target::{Endpoint, RequestHead};

/// Longest wait for a target's list of engines.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Largest list that is read, in bytes: some thousand engines.
const LIST_BYTES_MAX: usize = 16 << 20;

/// What is known of the engines behind one target.
#[derive(Debug, Default)]
pub(super) struct Backend {
    name: String,
    addresses: BTreeSet<SocketAddr>,
    /// Identities of engine processes, each unique to one life of one process.
    instances: BTreeSet<String>,
}

/// Looks the target up and asks it for its engines.
pub(super) async fn backend(target: &Target) -> Backend {
    let mut backend = Backend { name: target.name.clone(), ..Backend::default() };
    let Ok(endpoint) = Endpoint::parse(&target.url) else { return backend };
    let Ok(transport) = Network::resolve(&endpoint, &target.trust).await else { return backend };
    backend.addresses.extend(transport.addresses());
    let asked = timeout(ANSWER_WITHIN, instances(target, transport)).await;
    backend.instances = asked.ok().flatten().unwrap_or_default();
    backend
}

/// The engine processes that the target lists; none when it has no such list.
async fn instances(target: &Target, transport: Network) -> Option<BTreeSet<String>> {
    let request = RequestHead::get(target, "/workers").ok()?;
    let pool = Pool::new(transport); // its end would close the connection
    let (response, _connection) = pool.send(request).await.ok()?;
    let (head, mut body) = response.into_parts();
    if head.status != StatusCode::OK {
        return None;
    }
    let list: Workers = serde_json::from_slice(&read_whole(&mut body, LIST_BYTES_MAX).await.ok()?).ok()?;
    Some(list.workers.into_iter().filter_map(|worker| worker.engine?.instance).collect())
}

/// One sentence for each pair of targets with a backend in common.
pub(super) fn warnings(backends: &[Backend]) -> Vec<String> {
    let pairs = backends
        .iter()
        .enumerate()
        .flat_map(|(at, one)| backends[at + 1..].iter().map(move |two| (one, two)));
    pairs.filter_map(|(one, two)| in_common(one, two)).collect()
}

fn in_common(one: &Backend, two: &Backend) -> Option<String> {
    let engines = one.instances.intersection(&two.instances).count();
    let address = one.addresses.intersection(&two.addresses).next();
    let (one, two) = (&one.name, &two.name);
    let what = match (engines, address) {
        (0, None) => return None,
        (0, Some(address)) => format!("{one} and {two} are one server ({address})"),
        (1, _) => format!("{one} and {two} share an engine, by their /workers"),
        (engines, _) => format!("{one} and {two} share {engines} engines, by their /workers"),
    };
    Some(format!(
        "{what}: no run asks for another run's prompts, but each leaves the caches of those engines full for the next"
    ))
}

#[derive(Deserialize)]
struct Workers {
    workers: Vec<Worker>,
}

#[derive(Deserialize)]
struct Worker {
    engine: Option<Engine>,
}

#[derive(Deserialize)]
struct Engine {
    instance: Option<String>,
}

#[cfg(test)]
mod tests;
