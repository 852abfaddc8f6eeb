use std::net::SocketAddr;

use tito_mock::{BuildError, Exit, MockConfig, MockHandle, RunError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A mock engine that serves until this is stopped, dropped or killed by a fault.
#[derive(Debug)]
pub struct RunningMock {
    grpc: SocketAddr,
    http: SocketAddr,
    handle: MockHandle,
    shutdown: CancellationToken,
    /// One task; dropping it ends the mock.
    serving: JoinSet<Result<Exit, RunError>>,
}

impl RunningMock {
    /// Binds the ports of `config` and serves on them.
    pub async fn start(config: MockConfig) -> Result<Self, BuildError> {
        let mock = config.build().await?;
        let (grpc, http, handle) = (mock.grpc_addr(), mock.http_addr(), mock.handle());
        let shutdown = CancellationToken::new();
        let mut serving = JoinSet::new();
        serving.spawn(mock.run(shutdown.clone()));
        Ok(Self { grpc, http, handle, shutdown, serving })
    }

    /// Where its gRPC services listen.
    pub fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// Where its HTTP server listens.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The way to its faults and to what it was asked.
    pub fn handle(&self) -> &MockHandle {
        &self.handle
    }

    /// Shuts down in order and says how that ended.
    pub async fn stop(mut self) -> Result<Exit, RunError> {
        self.shutdown.cancel();
        let ended = self.serving.join_next().await.expect("the task was started with this");
        ended.expect("a mock neither panics nor is aborted")
    }
}
