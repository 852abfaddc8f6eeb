//! Binding, running and ending a mock.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::stream;
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic_health::pb::health_server::HealthServer;
use vllm_proto::GenerateRequest;
use vllm_proto::control_server::ControlServer;

use crate::call::admit;
use crate::config::{ConfigError, KvEventsConfig, KvStyle, MockConfig, TlsFiles};
use crate::engine::{Engine, EngineTask};
use crate::faults::{ActiveFault, FaultError, FaultSpec};
use crate::grpc::{ControlService, HealthService, InferenceService, REQUEST_BYTES_MAX};
use crate::instance::Instance;
use crate::journal::JournalEntry;
use crate::kv::{self, Digester, KvBindError, KvState, Log, Sockets};
use crate::lifecycle::DEATH_FLUSH;
use crate::listen::Port;
use crate::routes::routes;

/// Flow-control windows that let a prompt of 100,000 tokens through without a round trip.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Streams that one connection may have open.
const STREAMS_MAX: u32 = 16_384;

/// Why a mock did not come up.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The configuration makes no engine.
    #[error("configuration: {}", list(.0))]
    Config(Vec<ConfigError>),
    /// A port could not be bound.
    #[error("bind {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A TLS file could not be read.
    #[error("read {}", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The sockets of a rank's KV events did not come up.
    #[error("kv events of rank {rank}")]
    KvEvents {
        /// The global rank.
        rank: u32,
        /// What went wrong.
        source: KvBindError,
    },
    /// The TLS files do not make a server.
    #[error("tls")]
    Tls(#[source] tonic::transport::Error),
}

fn list(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Why a running mock failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The gRPC server failed.
    #[error("serve gRPC")]
    Grpc(#[source] tonic::transport::Error),
    /// The HTTP server failed.
    #[error("serve HTTP")]
    Http(#[source] io::Error),
    /// The task of a rank panicked.
    #[error("run the engine")]
    Engine(#[source] JoinError),
}

/// How a mock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// In order, on request.
    Stopped,
    /// A fault killed it: connections were reset.
    Died,
}

/// A mock engine whose ports are bound. It serves once it runs.
#[derive(Debug)]
pub struct Mock {
    instance: Arc<Instance>,
    tasks: Vec<EngineTask>,
    /// By owned rank; empty when events are not published.
    kv: Vec<Sockets>,
    server: Server,
    grpc: (TcpListener, SocketAddr),
    http: (TcpListener, SocketAddr),
}

impl MockConfig {
    /// Checks the configuration, reads TLS files and binds the ports. Accepts nothing yet.
    pub async fn build(self) -> Result<Mock, BuildError> {
        self.check().map_err(BuildError::Config)?;
        let server = Server::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(STREAMS_MAX);
        let server = match &self.tls {
            Some(files) => server.tls_config(tls_config(files).await?).map_err(BuildError::Tls)?,
            None => server,
        };
        let grpc = bind(self.grpc_listen).await?;
        let http = bind(self.http_listen).await?;
        let sim_config = self.sim_config();
        let (sources, kv) = bind_kv(&self).await?;
        let logs = kv.iter().map(|sockets| Arc::clone(&sockets.log)).collect();
        let instance = Arc::new(Instance::new(self, sources, logs));
        let task = |(index, engine): (usize, &Arc<Engine>)| {
            let publisher = kv.get(index).map(|sockets| sockets.publisher(&instance, engine.rank));
            EngineTask::new(Arc::clone(engine), sim_config.clone(), Arc::clone(&instance.model), publisher)
        };
        let tasks = instance.engines.iter().enumerate().map(task).collect();
        Ok(Mock { instance, tasks, kv, server, grpc, http })
    }
}

/// The settings of every owned rank, and its sockets if it publishes.
async fn bind_kv(config: &MockConfig) -> Result<(Vec<KvEventsConfig>, Vec<Sockets>), BuildError> {
    let (mut sources, mut sockets) = (Vec::new(), Vec::new());
    let Some(kv_events) = &config.kv_events else { return Ok((sources, sockets)) };
    for rank in config.owned_ranks() {
        let mut settings = kv_events.of_rank(rank);
        if settings.is_published() {
            let bound = kv::bind(&mut settings, config.grpc_listen.ip()).await;
            sockets.push(bound.map_err(|source| BuildError::KvEvents { rank, source })?);
        }
        sources.push(settings);
    }
    Ok((sources, sockets))
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), BuildError> {
    let fail = |source| BuildError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let bound = listener.local_addr().map_err(fail)?;
    Ok((listener, bound))
}

async fn tls_config(files: &TlsFiles) -> Result<ServerTlsConfig, BuildError> {
    let TlsFiles { certificate, key, client_authority } = files;
    let identity = Identity::from_pem(read(certificate).await?, read(key).await?);
    let config = ServerTlsConfig::new().identity(identity);
    Ok(match client_authority {
        Some(authority) => config.client_ca_root(Certificate::from_pem(read(authority).await?)),
        None => config,
    })
}

#[expect(clippy::disallowed_methods, reason = "awaited where it is spawned, and its panic is an error there")]
async fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    let owned = path.to_owned();
    let joined = tokio::task::spawn_blocking(move || std::fs::read(owned)).await;
    let read = joined.unwrap_or_else(|error| Err(io::Error::other(error)));
    read.map_err(|source| BuildError::TlsFile { path: path.to_owned(), source })
}

impl Mock {
    /// Where gRPC listens.
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc.1
    }

    /// Where HTTP listens.
    pub fn http_addr(&self) -> SocketAddr {
        self.http.1
    }

    /// The way to faults and journal while the mock runs.
    pub fn handle(&self) -> MockHandle {
        MockHandle { instance: Arc::clone(&self.instance) }
    }

    /// Serves until `shutdown`, `Control.Shutdown`, or a fault that kills it. Dropping the future kills it too.
    pub async fn run(self, shutdown: CancellationToken) -> Result<Exit, RunError> {
        let Self { instance, tasks, kv, server, grpc, http } = self;
        let lifecycle = &instance.lifecycle;
        // Whatever ends this future also ends the engines and resets what is still connected.
        let _kill_on_drop = lifecycle.kill.clone().drop_guard();
        let mut engines = JoinSet::new();
        for task in tasks {
            engines.spawn(task.run(lifecycle.kill.clone()));
        }
        for (sockets, rank) in kv.into_iter().zip(instance.config.owned_ranks()) {
            engines.spawn(sockets.run(Arc::clone(&instance), rank, lifecycle.kill.clone()));
        }
        let grpc = serve_grpc(&instance, server, grpc);
        let http = serve_http(&instance, http);
        let ended = async {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = lifecycle.stop.cancelled() => {}
            }
            lifecycle.begin_stop();
            // Even with no time at all, the reply to `Shutdown` leaves first.
            tokio::time::sleep(instance.config.shutdown_timeout.max(DEATH_FLUSH)).await;
        };
        let exit = tokio::select! {
            biased;
            () = lifecycle.gone() => Ok(Exit::Died),
            error = panicked(&mut engines) => Err(error),
            served = grpc => served.map(|()| Exit::Stopped),
            served = http => served.map(|()| Exit::Stopped),
            () = ended => Ok(Exit::Stopped),
        };
        lifecycle.kill.cancel();
        while let Some(ended) = engines.join_next().await {
            ended.map_err(RunError::Engine)?;
        }
        exit
    }
}

/// Returns when an engine's task panics. Ends of any other kind are not looked for here.
async fn panicked(engines: &mut JoinSet<()>) -> RunError {
    loop {
        match engines.join_next().await {
            Some(Ok(())) => {}
            Some(Err(error)) => return RunError::Engine(error),
            None => std::future::pending().await,
        }
    }
}

async fn serve_grpc(
    instance: &Arc<Instance>,
    mut server: Server,
    (listener, address): (TcpListener, SocketAddr),
) -> Result<(), RunError> {
    let lifecycle = &instance.lifecycle;
    let (kill, stop) = (lifecycle.kill.clone(), lifecycle.stop.clone());
    let port = Port::new(listener, address, Some(lifecycle.listening()), kill, stop.clone());
    let connections = stream::unfold(port, async |mut port| {
        let connection = port.accept().await?;
        Some((Ok::<_, io::Error>(connection), port))
    });
    let control = ControlServer::new(ControlService::new(Arc::clone(instance)));
    let health = HealthServer::new(HealthService::new(Arc::clone(instance)));
    server
        .add_service(InferenceService::new(Arc::clone(instance)))
        .add_service(control.max_decoding_message_size(REQUEST_BYTES_MAX))
        .add_service(health)
        .serve_with_incoming_shutdown(connections, stop.cancelled_owned())
        .await
        .map_err(RunError::Grpc)
}

async fn serve_http(
    instance: &Arc<Instance>,
    (listener, address): (TcpListener, SocketAddr),
) -> Result<(), RunError> {
    let lifecycle = &instance.lifecycle;
    let kill = lifecycle.kill.clone();
    // The control route stays open while gRPC refuses, and until the very end.
    let port = Port::new(listener, address, None, kill.clone(), kill);
    axum::serve(port, routes(Arc::clone(instance))).await.map_err(RunError::Http)
}

/// A running mock, seen by a test.
#[derive(Debug, Clone)]
pub struct MockHandle {
    instance: Arc<Instance>,
}

impl MockHandle {
    /// Sets a fault and returns its number.
    pub fn add_fault(&self, fault: FaultSpec) -> Result<u64, FaultError> {
        let id = self.instance.faults.add(fault)?;
        self.instance.apply_doors();
        Ok(id)
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.instance.faults.remove(None);
        self.instance.apply_doors();
    }

    /// The faults that are set.
    pub fn faults(&self) -> Vec<ActiveFault> {
        self.instance.faults.list()
    }

    /// The last requests that reached the engine, oldest first.
    pub fn requests(&self) -> Vec<Arc<JournalEntry>> {
        self.instance.journal.entries()
    }

    /// What a global rank has published until now. `None` if it publishes nothing.
    pub fn kv_state(&self, rank: u32) -> Option<KvState> {
        self.instance.kv_log(rank).map(Log::state)
    }

    /// The number of the last batch that a global rank has published. `None` before the first one.
    pub fn kv_last_seq(&self, rank: u32) -> Option<u64> {
        self.instance.kv_log(rank)?.last_seq()
    }

    /// The names that the full blocks of a request's prompt have in KV events, whether they are cached or not. `None` when
    /// the request would be refused.
    pub fn kv_names(&self, request: &GenerateRequest) -> Option<Vec<u64>> {
        let config = &self.instance.config;
        let plan = admit::check(&self.instance, request).ok()?;
        let KvStyle { hash_algorithm, hash_seed, .. } = &config.kv_style;
        let digester = Digester::new(*hash_algorithm, hash_seed.as_deref());
        Some(kv::names(digester, config.block_size, &plan.prompt, &plan.origin))
    }

    /// Resets every connection and stops listening, like a killed process.
    pub fn kill(&self) {
        self.instance.lifecycle.kill.cancel();
    }
}

#[cfg(test)]
mod tests;
