//! The sockets of one rank: PUB for its batches, ROUTER for replays of them.

use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use zeromq::{PubSocket, RouterSocket, Socket, SocketEvent, SocketRecv, SocketSend, ZmqError, ZmqMessage};

use super::endpoint::{self, EndpointError, Place};
use super::log::Log;
use super::publisher::{Message, Publisher};
use crate::config::{KvEventsConfig, ReplayLayout};
use crate::instance::Instance;

/// How long to wait before connecting again to an endpoint that cannot be reached.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);
/// The sequence number that ends an answer: −1.
const END: [u8; 8] = [0xff; 8];

/// Why the sockets of a rank did not come up.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The endpoint cannot be served.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The port could not be bound.
    #[error("bind {0}")]
    Bind(SocketAddr, #[source] std::io::Error),
    /// The socket did not take the port.
    #[error("listen on {0}")]
    Listen(SocketAddr, #[source] Box<ZmqError>),
}

/// The sockets of one rank.
pub(crate) struct Sockets {
    publish: PubSocket,
    /// Whom to connect to; none when the socket is bound.
    connect: Option<String>,
    replay: Option<RouterSocket>,
    queue: mpsc::Receiver<Message>,
    pub(crate) log: Arc<Log>,
    outbox: mpsc::Sender<Message>,
}

impl fmt::Debug for Sockets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sockets").field("connect", &self.connect).finish_non_exhaustive()
    }
}

/// Binds the sockets of a rank. The ports that were found replace those in its settings.
pub(crate) async fn bind(settings: &mut KvEventsConfig, any: IpAddr) -> Result<Sockets, BindError> {
    let mut publish = PubSocket::new();
    let connect = match endpoint::publish(&settings.endpoint, any)? {
        Place::Connect(endpoint) => Some(endpoint),
        Place::Bind(address) => {
            let (listener, port) = listen(address)?;
            let bound = publish.bind_listener(listener).await;
            bound.map_err(|error| BindError::Listen(address, Box::new(error)))?;
            settings.endpoint = endpoint::with_port(&settings.endpoint, port);
            None
        }
    };
    let replay = match &settings.replay_endpoint {
        None => None,
        Some(endpoint) => {
            let address = endpoint::replay(endpoint, any)?;
            let (listener, port) = listen(address)?;
            let mut socket = RouterSocket::new();
            let bound = socket.bind_listener(listener).await;
            bound.map_err(|error| BindError::Listen(address, Box::new(error)))?;
            settings.replay_endpoint = Some(endpoint::with_port(endpoint, port));
            Some(socket)
        }
    };
    let (outbox, queue) = mpsc::channel(settings.max_queue_size.max(1) as usize);
    let log = Arc::new(Log::new(settings.buffer_steps));
    Ok(Sockets { publish, connect, replay, queue, log, outbox })
}

fn listen(address: SocketAddr) -> Result<(TcpListener, u16), BindError> {
    let listener = TcpListener::bind(address).map_err(|error| BindError::Bind(address, error))?;
    let port = listener.local_addr().map_err(|error| BindError::Bind(address, error))?.port();
    Ok((listener, port))
}

impl Sockets {
    /// The rank's publisher, which fills the queue of these sockets.
    pub(crate) fn publisher(&self, instance: &Arc<Instance>, rank: u32) -> Publisher {
        Publisher::new(Arc::clone(instance), rank, Arc::clone(&self.log), self.outbox.clone())
    }

    /// Serves both sockets until `end`, then closes them.
    pub(crate) async fn run(self, instance: Arc<Instance>, rank: u32, end: CancellationToken) {
        let Self { mut publish, connect, replay, mut queue, log, outbox: _ } = self;
        let publishing = publish_all(&mut publish, connect.as_deref(), &mut queue);
        let mut replay = replay;
        let replaying = async {
            match &mut replay {
                Some(socket) => answer(socket, &instance, rank, &log).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = end.cancelled() => {}
            // Its sender went with the engine; replays end with it.
            () = publishing => {}
            () = replaying => {}
        }
        // Waits until the ports are free again.
        publish.close().await;
        if let Some(socket) = replay {
            socket.close().await;
        }
    }
}

/// Sends what comes until nothing can come any more.
async fn publish_all(socket: &mut PubSocket, connect: Option<&str>, queue: &mut mpsc::Receiver<Message>) {
    let Some(endpoint) = connect else {
        while let Some(message) = queue.recv().await {
            send(socket, message).await;
        }
        return;
    };
    let mut changes = socket.monitor();
    loop {
        if !reach(socket, endpoint, queue).await {
            return;
        }
        loop {
            tokio::select! {
                next = queue.recv() => match next {
                    Some(message) => send(socket, message).await,
                    None => return,
                },
                change = changes.next() => if matches!(change, Some(SocketEvent::Disconnected(_)) | None) {
                    break;
                },
            }
        }
    }
}

async fn send(socket: &mut PubSocket, Message { frames, due }: Message) {
    if due > Instant::now() {
        tokio::time::sleep_until(due).await;
    }
    if let Err(error) = socket.send(message(frames.to_vec())).await {
        warn!(%error, "a batch of KV events was not sent");
    }
}

/// Connects to a listener. What is published before it is there is lost, as with every PUB socket. False when
/// nothing can come any more.
async fn reach(socket: &mut PubSocket, endpoint: &str, queue: &mut mpsc::Receiver<Message>) -> bool {
    loop {
        let connecting = async {
            let connected = socket.connect(endpoint).await;
            if let Err(error) = &connected {
                debug!(%error, endpoint, "nobody listens for KV events yet");
                tokio::time::sleep(CONNECT_AGAIN).await;
            }
            connected.is_ok()
        };
        tokio::select! {
            connected = connecting => if connected {
                return true;
            },
            () = discard(queue) => return false,
        }
    }
}

/// Drops what comes; returns when nothing can come any more.
async fn discard(queue: &mut mpsc::Receiver<Message>) {
    while queue.recv().await.is_some() {}
}

/// Answers replay requests, one after the other.
async fn answer(socket: &mut RouterSocket, instance: &Instance, rank: u32, log: &Log) {
    let layout = instance.config.kv_style.replay;
    let topic = instance.kv_topic();
    loop {
        let request = match socket.recv().await {
            Ok(request) => request.into_vec(),
            Err(error) => {
                warn!(%error, rank, "the replay socket failed");
                return std::future::pending().await;
            }
        };
        // Identity, delimiter, first sequence number: anything else gets no answer.
        let [identity, delimiter, start] = request.as_slice() else { continue };
        let start = <[u8; 8]>::try_from(start.as_ref()).map(u64::from_be_bytes);
        let (true, Ok(start)) = (delimiter.is_empty(), start) else { continue };
        let fault = instance.faults.take_replay(rank);
        if fault.silent {
            continue;
        }
        tokio::time::sleep(fault.delay).await;
        let frames = |topic: Bytes, seq: [u8; 8], batch: Bytes| {
            let seq = Bytes::copy_from_slice(&seq);
            let mut frames = vec![identity.clone(), Bytes::new()];
            match layout {
                ReplayLayout::Topic => frames.extend([topic, seq, batch]),
                ReplayLayout::NoTopic => frames.extend([seq, batch]),
            }
            message(frames)
        };
        let batches = log.since(start, Instant::now()).into_iter();
        let replies = batches.map(|(seq, batch)| frames(topic.clone(), seq.to_be_bytes(), batch));
        for reply in replies.chain([frames(Bytes::new(), END, Bytes::new())]) {
            if let Err(error) = socket.send(reply).await {
                debug!(%error, rank, "the client of a replay left");
                break;
            }
        }
    }
}

fn message(frames: Vec<Bytes>) -> ZmqMessage {
    ZmqMessage::try_from(frames).expect("a message of at least one frame")
}
