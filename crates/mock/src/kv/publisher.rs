//! One rank's publisher: numbers batches, records them and hands them to the socket, faults included.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tito_engine_sim::{KvEvent, RequestId, fold};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::warn;

use super::batch::{Event, Names};
use super::digest::Digester;
use super::encode;
use super::log::Log;
use super::origin::Origin;
use crate::faults::FrameFault;
use crate::instance::Instance;

/// Topic, sequence number, batch.
pub(super) type Frames = [Bytes; 3];

/// A message for the socket.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(super) frames: Frames,
    /// When to send it; never before the message that came earlier.
    pub(super) due: Instant,
}

/// What a step did to the cache, not yet published.
#[derive(Debug)]
pub(crate) struct Batch {
    events: Vec<Event>,
    bytes: Vec<u8>,
}

/// Publishes the events of one rank.
#[derive(Debug)]
pub(crate) struct Publisher {
    instance: Arc<Instance>,
    rank: u32,
    topic: Bytes,
    names: Names,
    log: Arc<Log>,
    /// As long as vLLM's `max_queue_size`; what does not fit is lost, and missing in the sequence.
    outbox: mpsc::Sender<Message>,
    /// A message that changes places with the next one.
    held: Option<Message>,
    /// When the last batch is sent.
    due: Instant,
}

impl Publisher {
    pub(crate) fn new(
        instance: Arc<Instance>,
        rank: u32,
        log: Arc<Log>,
        outbox: mpsc::Sender<Message>,
    ) -> Self {
        let config = &instance.config;
        let digester = Digester::new(config.kv_style.hash_algorithm, config.kv_style.hash_seed.as_deref());
        let names = Names::new(digester, config.block_size);
        let topic = instance.kv_topic();
        Self { instance, rank, topic, names, log, outbox, held: None, due: Instant::now() }
    }

    /// Takes the events of a step, if there are any. `origin` knows every request that is alive.
    pub(crate) fn encode(
        &mut self,
        events: &mut Vec<KvEvent>,
        origin: impl Fn(RequestId) -> Arc<Origin>,
    ) -> Option<Batch> {
        let events = self.names.take(events, origin);
        if events.is_empty() {
            return None;
        }
        let config = &self.instance.config;
        let bytes = encode::batch(&events, self.rank, config.block_size, &config.kv_style);
        Some(Batch { events, bytes })
    }

    /// Gives a batch the next number and sends it.
    pub(crate) fn publish(&mut self, batch: Batch) {
        let Batch { events, mut bytes } = batch;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        encode::set_time(&mut bytes, now);
        let bytes = Bytes::from(bytes);
        self.due = self.due.max(Instant::now() + self.delay());
        let seq = self.log.add(&events, bytes.clone(), self.due);
        let frames = [self.topic.clone(), Bytes::copy_from_slice(&seq.to_be_bytes()), bytes];
        let message = Message { frames, due: self.due };
        let mut next = self.held.take();
        match self.instance.faults.take_frame(self.rank, seq) {
            None => self.send(message),
            Some(FrameFault::Drop) => {}
            Some(FrameFault::Duplicate) => {
                self.send(message.clone());
                self.send(message);
            }
            Some(FrameFault::Reorder) => self.held = Some(message),
            Some(FrameFault::Corrupt) => {
                self.send(Message { frames: corrupt(message.frames), ..message });
            }
            Some(FrameFault::TruncateSeq) => {
                let [topic, seq, bytes] = message.frames;
                self.send(Message { frames: [topic, seq.slice(..4), bytes], ..message });
            }
        }
        if let Some(message) = next.take() {
            self.send(message);
        }
    }

    /// How late the next batch is sent. As in vLLM, whose publisher is a thread of its own, output does not wait for it.
    fn delay(&self) -> Duration {
        let Some((delay, jitter)) = self.instance.faults.take_delay(self.rank) else { return Duration::ZERO };
        let number = self.log.last_seq().map_or(0, |last| last + 1);
        let word = fold(fold(self.instance.config.seed, u64::from(self.rank)), number);
        delay + jitter.mul_f64((word >> 11) as f64 / (1u64 << 53) as f64)
    }

    fn send(&self, message: Message) {
        if self.outbox.try_send(message).is_err() {
            warn!(rank = self.rank, "a batch of KV events is lost: the queue is full");
        }
    }
}

/// Flips bits of the first byte, so that the batch is no array, and of one in the middle.
fn corrupt([topic, seq, bytes]: Frames) -> Frames {
    let mut bytes = bytes.to_vec();
    let middle = bytes.len() / 2;
    for index in [0, middle] {
        bytes[index] ^= 0xff;
    }
    [topic, seq, bytes.into()]
}
