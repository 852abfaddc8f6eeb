//! Opening the sockets of one rank.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::time::timeout;

use crate::kv::endpoint::Endpoint;
use crate::kv::sources::Source;
use crate::kv::zmtp::{Io, Link, Role};

/// First byte of the message that asks for a topic.
const SUBSCRIBE: u8 = 1;
/// Silence after which a connection is probed, and the time between probes; the operating system gives up after some.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Makes subscriptions to one publisher, one after the other.
pub(crate) struct Subscriber {
    source: Source,
    /// Limit for connecting and for the greeting.
    limit: Duration,
    /// Kept between connections where the engine connects to us.
    listener: Option<TcpListener>,
}

impl Subscriber {
    pub(crate) fn new(source: Source, limit: Duration) -> Self {
        Self { source, limit, listener: None }
    }

    /// A subscription that the publisher was told of. Waits for ever where the engine is to connect.
    pub(crate) async fn subscribe(&mut self) -> io::Result<Link> {
        let io: Box<dyn Io> = match &self.source.events {
            Endpoint::Listen { host, port } => {
                if self.listener.is_none() {
                    self.listener = listen(host, *port).await?;
                }
                match &self.listener {
                    Some(listener) => tcp(listener.accept().await?.0)?,
                    None => connect(&self.source.events, self.limit).await?,
                }
            }
            endpoint @ (Endpoint::Tcp { .. } | Endpoint::Ipc(_)) => connect(endpoint, self.limit).await?,
        };
        let mut link = within(self.limit, Link::open(io, Role::Subscriber)).await?;
        let mut subscription = vec![SUBSCRIBE];
        subscription.extend(self.source.topic.as_bytes());
        link.send(&[&subscription])?;
        within(self.limit, link.flush()).await?;
        Ok(link)
    }
}

/// A conversation with the socket that replays, and the question asked.
pub(crate) async fn ask(endpoint: Endpoint, from: u64, limit: Duration) -> io::Result<Link> {
    let io = connect(&endpoint, limit).await?;
    let mut link = within(limit, Link::open(io, Role::Dealer)).await?;
    // The publisher answers nothing that lacks the empty frame.
    link.send(&[&[], &from.to_be_bytes()])?;
    within(limit, link.flush()).await?;
    Ok(link)
}

/// Listens if the address is ours and free. One that is not was bound by the engine.
async fn listen(host: &str, port: u16) -> io::Result<Option<TcpListener>> {
    match TcpListener::bind((host, port)).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn connect(endpoint: &Endpoint, limit: Duration) -> io::Result<Box<dyn Io>> {
    match endpoint {
        Endpoint::Tcp { host, port } | Endpoint::Listen { host, port } => {
            tcp(within(limit, TcpStream::connect((host.as_str(), *port))).await?)
        }
        Endpoint::Ipc(path) => Ok(Box::new(within(limit, UnixStream::connect(path)).await?)),
    }
}

fn tcp(stream: TcpStream) -> io::Result<Box<dyn Io>> {
    stream.set_nodelay(true)?;
    // An engine may say nothing for hours, and a connection may die without a word: only probes tell them apart.
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_INTERVAL);
    SockRef::from(&stream).set_tcp_keepalive(&probes)?;
    Ok(Box::new(stream))
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
