//! An engine's event sockets, by an implementation of ZeroMQ that is not ours.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tito_test_support::port::ReservedPort;
use tokio::task::JoinSet;
use zeromq::{PubSocket, RouterSocket, Socket, SocketEvent, SocketRecv, SocketSend, ZmqMessage};

use super::soon;
use crate::kv::endpoint::Endpoint;
use crate::kv::sources::Source;

/// How replays are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// With the topic, as vLLM 0.32.
    Topic,
    /// Without, as older releases.
    NoTopic,
    /// Not at all.
    Silent,
}

type Buffer = Arc<Mutex<Vec<(u64, Bytes)>>>;

/// Publishes batches and answers replays, on free ports.
pub(crate) struct Publisher {
    socket: PubSocket,
    events: BoxStream<'static, SocketEvent>,
    ports: Ports,
    layout: Layout,
    buffer: Buffer,
    next: u64,
    replaying: JoinSet<()>,
}

/// Where it publishes and where it replays: its own for as long as a test may start it again.
struct Ports {
    events: ReservedPort,
    replay: ReservedPort,
}

/// The addresses of one that stopped.
pub(crate) struct Stopped(Layout, Ports);

impl Publisher {
    pub(crate) async fn start(layout: Layout) -> Self {
        let ports = Ports { events: ReservedPort::any(), replay: ReservedPort::any() };
        Stopped(layout, ports).start().await
    }

    pub(crate) fn source(&self) -> Source {
        let endpoint =
            |port: &ReservedPort| Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: port.port() };
        let (events, replay) = (endpoint(&self.ports.events), endpoint(&self.ports.replay));
        Source { rank: 0, events, replay: Some(replay), topic: "kv".to_owned() }
    }

    /// Publishes the next batch.
    pub(crate) async fn publish(&mut self, payload: Bytes) {
        let seq = self.remember(payload.clone());
        self.raw(&[b"kv", &seq.to_be_bytes(), &payload]).await;
    }

    /// Publishes the next batch, and it is lost on the way.
    pub(crate) async fn lose(&mut self, payload: Bytes) {
        self.remember(payload);
        self.raw(&[b"other topic", b"", b""]).await;
    }

    /// Publishes an old batch again.
    pub(crate) async fn repeat(&mut self, seq: u64) {
        let payload = self.buffer.lock().expect("no panic")[seq as usize].1.clone();
        self.raw(&[b"kv", &seq.to_be_bytes(), &payload]).await;
    }

    pub(crate) async fn raw(&mut self, frames: &[&[u8]]) {
        self.socket.send(message(frames)).await.expect("a publisher never blocks");
    }

    /// Drops the oldest batches of the replay buffer.
    pub(crate) fn forget(&mut self, batches: usize) {
        self.buffer.lock().expect("no panic").drain(..batches);
    }

    fn remember(&mut self, payload: Bytes) -> u64 {
        let seq = self.next;
        self.next += 1;
        self.buffer.lock().expect("no panic").push((seq, payload));
        seq
    }

    /// Publishes the next batch, and again until `seen`: nobody can tell when a subscription has taken effect.
    pub(crate) async fn publish_until(&mut self, payload: Bytes, seen: impl Future<Output = ()>) {
        let seq = self.remember(payload);
        let mut seen = std::pin::pin!(seen);
        let again = async {
            loop {
                self.repeat(seq).await;
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = &mut seen => {}
            () = again => {}
        }
    }

    /// Waits until a subscriber went away.
    pub(crate) async fn left(&mut self) {
        let events = &mut self.events;
        soon("a subscriber that leaves", async {
            while !matches!(events.next().await.expect("the socket lives"), SocketEvent::Disconnected(_)) {}
        })
        .await;
    }

    /// Connects to a subscriber that listens.
    pub(crate) async fn connect(&mut self, port: u16) {
        let endpoint = format!("tcp://127.0.0.1:{port}");
        soon("a subscriber that listens", self.socket.connect(&endpoint)).await.expect("it listens");
    }

    pub(crate) async fn stop(mut self) -> Stopped {
        self.replaying.shutdown().await;
        assert!(self.socket.close().await.is_empty());
        Stopped(self.layout, self.ports)
    }

    /// Another process behind the same addresses.
    pub(crate) async fn restart(self) -> Self {
        self.stop().await.start().await
    }
}

impl Stopped {
    pub(crate) async fn start(self) -> Publisher {
        let Self(layout, ports) = self;
        let (mut socket, mut router) = (PubSocket::new(), RouterSocket::new());
        let monitor = socket.monitor().boxed();
        let endpoint = |port: &ReservedPort| format!("tcp://{}", port.address());
        socket.bind(&endpoint(&ports.events)).await.expect("the port is ours");
        router.bind(&endpoint(&ports.replay)).await.expect("the port is ours");
        let buffer = Buffer::default();
        let mut replaying = JoinSet::new();
        replaying.spawn(answer(router, Arc::clone(&buffer), layout));
        Publisher { socket, events: monitor, ports, layout, buffer, next: 0, replaying }
    }
}

async fn answer(mut router: RouterSocket, buffer: Buffer, layout: Layout) {
    while let Ok(question) = router.recv().await {
        let frames = question.into_vec();
        let [id, empty, from] = &frames[..] else { continue };
        if layout == Layout::Silent {
            continue;
        }
        assert!(empty.is_empty());
        let from = u64::from_be_bytes(from[..].try_into().expect("a number"));
        let batches = buffer.lock().expect("no panic").clone();
        let end = (u64::MAX, Bytes::new());
        for (seq, payload) in batches.into_iter().filter(|(seq, _)| *seq >= from).chain([end]) {
            let seq = seq.to_be_bytes();
            let reply = match layout {
                Layout::Topic => message(&[id, b"", b"kv", &seq, &payload]),
                Layout::NoTopic | Layout::Silent => message(&[id, b"", &seq, &payload]),
            };
            if router.send(reply).await.is_err() {
                break;
            }
        }
    }
}

fn message(frames: &[&[u8]]) -> ZmqMessage {
    let frames: Vec<Bytes> = frames.iter().map(|frame| Bytes::copy_from_slice(frame)).collect();
    ZmqMessage::try_from(frames).expect("not empty")
}
