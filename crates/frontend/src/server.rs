//! Sockets: the accept loop, connections, TLS, and the way out.

mod accept;
mod client;
mod connection;
mod executor;
mod io;
mod tls;

pub(crate) use client::Client;
pub(crate) use tls::check as check_tls;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use futures_util::future::{OptionFuture, join};
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use tito_formats::MediaCache;
use tito_runtime::Stage;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::app::{App, Endpoint, Parts, now_unix_seconds};
use crate::budget::Budget;
use crate::config::{CONTROL_CONNECTIONS_MAX, FrontendConfig, LARGE_BINDS_MAX, ORDERS_BYTES_MAX, ORDERS_MAX};
use crate::error::Error;
use crate::keys::KeyStore;
use crate::metrics::Metrics;
use crate::reloadable::Reloadable;
use crate::route::BUILT_IN;
use crate::router::{clients, operators};

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything in flight had finished.
    Clean,
    /// So many generation requests were dropped at the end of the drain.
    Forced(usize),
}

/// A bound socket with everything behind it. Accepts nothing until it runs.
pub struct Frontend {
    pub(crate) app: Arc<App>,
    clients: Post,
    /// Where orders are taken.
    control: Option<Post>,
    tls: Option<Reloadable<ServerConfig>>,
}

/// One bound socket and who may speak there.
struct Post {
    listener: TcpListener,
    address: SocketAddr,
    keys: KeyStore,
    connections_max: usize,
}

impl Post {
    fn bind(listen: SocketAddr, keys: KeyStore, connections_max: usize) -> Result<Self, Error> {
        let bound = || {
            let listener = bind(listen)?;
            Ok((listener.local_addr()?, listener))
        };
        let (address, listener) = bound().map_err(|source| Error::Listen(listen, source))?;
        Ok(Self { listener, address, keys, connections_max })
    }
}

impl FrontendConfig {
    /// Reads keys and certificates, registers metrics, and binds the socket last. Must be called on a runtime.
    pub fn build(self, parts: Parts, registry: &mut Registry) -> Result<Frontend, Error> {
        check_paths(&parts)?;
        let metrics = Metrics::register(registry);
        let tls = self.tls.map(|tls| {
            let read = move || tls::server_config(&tls);
            Reloadable::try_new("TLS files", read, parts.reload.clone(), &parts.tasks, metrics.tls_reloads())
        });
        let tls = tls.transpose()?;
        let keys = KeyStore::build(&self.keys, parts.reload.clone(), &parts.tasks, metrics.key_reloads())?;
        let in_control = |error| Error::Control(Box::new(error));
        let operators = self.control.map(|control| {
            let keys = KeyStore::build(&control.keys, parts.reload, &parts.tasks, metrics.key_reloads());
            Ok((control.listen, keys.map_err(in_control)?))
        });
        let operators = operators.transpose()?;
        let endpoints = parts.formats.into_iter().map(|format| {
            let metrics = metrics.route(format.route);
            Arc::new(Endpoint { path: format.path, route: format.route, format: format.format, metrics })
        });
        let app = App {
            engine: parts.engine,
            operator: parts.operator,
            catalog: parts.catalog,
            endpoints: endpoints.collect(),
            shutdown: parts.shutdown,
            tasks: parts.tasks,
            order_bodies: Budget::new(ORDERS_BYTES_MAX),
            orders: Arc::new(Semaphore::new(ORDERS_MAX)),
            limits: self.limits,
            timeouts: self.timeouts,
            sampling_defaults: self.sampling_defaults,
            strict: self.strict,
            stream_ping: self.stream_ping,
            metrics_open: self.keys.metrics_open,
            bodies: Budget::new(self.limits.bodies_bytes.max(self.limits.body_bytes)),
            large_binds: Arc::new(Semaphore::new(LARGE_BINDS_MAX)),
            media: Arc::new(MediaCache::new(self.limits.media_cache_bytes)),
            created_unix_seconds: now_unix_seconds(),
            metrics,
        };
        let clients = Post::bind(self.listen, keys, self.limits.connections)?;
        let control = operators
            .map(|(listen, keys)| Post::bind(listen, keys, CONTROL_CONNECTIONS_MAX).map_err(in_control))
            .transpose()?;
        Ok(Frontend { app: Arc::new(app), clients, control, tls })
    }
}

fn check_paths(parts: &Parts) -> Result<(), Error> {
    let mut taken: Vec<&str> = BUILT_IN.iter().map(|(path, _)| *path).collect();
    for format in &parts.formats {
        if taken.contains(&format.path) {
            return Err(Error::Path(format.path));
        }
        taken.push(format.path);
    }
    Ok(())
}

impl Frontend {
    /// The bound address, its port filled in.
    pub fn local_addr(&self) -> SocketAddr {
        self.clients.address
    }

    /// The same of the socket for orders, where there is one.
    pub fn control_addr(&self) -> Option<SocketAddr> {
        self.control.as_ref().map(|control| control.address)
    }

    /// Every route for clients as a value, without a socket. `registry` is what `/metrics` shows.
    pub fn router(&self, registry: &Arc<Registry>) -> Router {
        clients(&self.app, &self.clients.keys, registry)
    }

    /// The same for orders, where they are taken.
    pub(crate) fn control_router(&self) -> Option<Router> {
        self.control.as_ref().map(|control| operators(&self.app, &control.keys))
    }

    /// Serves until the shutdown sequence ends: new work is refused while draining, work in flight finishes, and
    /// what is left when the stage is forced is dropped. The socket stays open until then, so that liveness holds.
    pub async fn run(self, registry: Arc<Registry>) -> Exit {
        let routers = (self.router(&registry), self.control_router());
        let Self { app, clients, control, tls } = self;
        let (busy, end, connections) = (TaskTracker::new(), CancellationToken::new(), TaskTracker::new());
        let serve = |post: Post, router: Router, orders: bool| {
            let Post { listener, address, connections_max, .. } = post;
            info!(%address, tls = tls.is_some(), orders, "listening");
            let (app, tls, busy, end) = (Arc::clone(&app), tls.clone(), busy.clone(), end.clone());
            let server = Arc::new(Server { app, router, tls, busy, end });
            accept::serve(listener, connections_max, server, connections.clone())
        };
        let clients = serve(clients, routers.0, false);
        let control =
            OptionFuture::from(control.zip(routers.1).map(|(post, router)| serve(post, router, true)));
        let exit = tokio::select! {
            biased;
            () = drained(&app, &busy) => Exit::Clean,
            () = app.shutdown.reached(Stage::Forced) => Exit::Forced(app.generations_in_flight()),
            // Both accept for ever.
            _ = join(clients, control) => Exit::Clean,
        };
        end.cancel();
        connections.close();
        connections.wait().await;
        // Whoever gave an order may have left; its engine is paused until it ends.
        let all = app.orders.acquire_many(ORDERS_MAX as u32).await;
        debug_assert!(all.is_ok(), "the semaphore is never closed");
        info!(?exit, "stopped listening");
        exit
    }
}

/// Resolves when new work is refused and every connection that had any is done, to the last byte.
async fn drained(app: &App, busy: &TaskTracker) {
    app.shutdown.reached(Stage::Draining).await;
    busy.close();
    busy.wait().await;
}

/// What connections share.
pub(crate) struct Server {
    app: Arc<App>,
    router: Router,
    tls: Option<Reloadable<ServerConfig>>,
    /// One token per connection that has had a request.
    busy: TaskTracker,
    /// Drops every connection.
    end: CancellationToken,
}

/// Connections that the kernel completes while they wait to be accepted. A trainer opens thousands at one moment, and
/// one that finds the queue full tries again only after a second.
const BACKLOG_CONNECTIONS: u32 = 4_096;

fn bind(listen: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG_CONNECTIONS)
}
