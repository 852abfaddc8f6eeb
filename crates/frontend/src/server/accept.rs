//! The accept loop: a bound on connections, and patience with a socket that fails.
//!
//! It must not know what connections carry.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use super::{Server, connection};
use crate::metrics::ConnectionMetrics;

/// First pause after the operating system could not hand over a connection; doubled while that lasts.
const BACKOFF_MIN: Duration = Duration::from_millis(5);
/// Longest such pause: descriptors come back when requests end.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Accepts for ever. At the limit nothing is accepted; clients wait in the kernel's backlog.
pub(super) async fn serve(
    listener: TcpListener,
    connections_max: usize,
    server: Arc<Server>,
    connections: TaskTracker,
) {
    let permits = Arc::new(Semaphore::new(connections_max));
    let metrics = &server.app.metrics.connections;
    let mut warned = false;
    loop {
        let free = permits.available_permits();
        if free == 0 && !warned {
            warn!(connections_max, "connection limit reached, not accepting");
        }
        // Said again only after some relief: at the limit every connection that ends lets in the next one.
        warned = free == 0 || (warned && free < connections_max / 16);
        let permit = Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
        let tcp = next(&listener, metrics).await;
        let connection = connection::serve(Arc::clone(&server), tcp);
        drop(server.app.tasks.spawn_owned(
            "connection",
            connections.track_future(async move {
                let _permit = permit;
                connection.await;
            }),
        ));
    }
}

/// Where connections come from; tests have their own.
pub(super) trait Accept {
    type Connection;
    fn accept(&self) -> impl Future<Output = io::Result<Self::Connection>> + Send;
}

impl Accept for TcpListener {
    type Connection = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        Ok(TcpListener::accept(self).await?.0)
    }
}

/// The next connection. Failures pass: a client that left while queued at once, a lack of descriptors after a pause.
pub(super) async fn next<A: Accept>(listener: &A, metrics: &ConnectionMetrics) -> A::Connection {
    let mut pause = BACKOFF_MIN;
    loop {
        let error = match listener.accept().await {
            Ok(connection) => {
                metrics.accepted.inc();
                return connection;
            }
            Err(error) => error,
        };
        if client_left(&error) {
            continue;
        }
        metrics.accept_errors.inc();
        error!(%error, pause_ms = pause.as_millis(), "cannot accept");
        sleep(pause).await;
        pause = (pause * 2).min(BACKOFF_MAX);
    }
}

fn client_left(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::ConnectionAborted | K::ConnectionReset | K::ConnectionRefused | K::Interrupted)
}

#[cfg(test)]
mod tests;
