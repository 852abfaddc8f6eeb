//! One question to a publisher's replay socket, as it is answered.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use crate::kv::endpoint::Endpoint;
use crate::kv::subscribe::ask;
use crate::kv::timing::Timing;
use crate::kv::zmtp::{Link, Message};

/// The sequence number that ends a replay, −1 on the wire.
const END: u64 = u64::MAX;

/// What a replay brings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A batch.
    Batch(u64, Bytes),
    /// A reply that is no batch.
    Unreadable,
    /// All was sent.
    Ended,
    /// Nothing more will come, and why.
    Failed(String),
}

/// A question under way; dropping it closes its socket.
pub(crate) struct Replay {
    /// The cursor's name for it.
    pub ask: u64,
    /// Answers so far.
    pub batches: u64,
    state: State,
    timing: Timing,
}

enum State {
    /// Each step of it has a limit of its own.
    Asking(Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>),
    Reading {
        link: Link,
        /// When it fails for being silent.
        silence: Instant,
        /// When it fails in any case.
        end: Instant,
    },
}

impl Replay {
    /// Asks after `delay` for everything from `from` on.
    pub(crate) fn new(id: u64, endpoint: Endpoint, from: u64, delay: Duration, timing: &Timing) -> Self {
        let limit = timing.connect;
        let asking = async move {
            tokio::time::sleep(delay).await;
            ask(endpoint, from, limit).await
        };
        Self { ask: id, batches: 0, state: State::Asking(Box::pin(asking)), timing: timing.clone() }
    }

    /// The next answer. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Answer {
        loop {
            match &mut self.state {
                State::Asking(asking) => match asking.await {
                    Ok(link) => {
                        let now = Instant::now();
                        let (silence, end) = (now + self.timing.replay_silence, now + self.timing.replay);
                        self.state = State::Reading { link, silence, end };
                    }
                    Err(error) => return Answer::Failed(error.to_string()),
                },
                State::Reading { link, silence, end } => {
                    let deadline = *end.min(silence);
                    let message = tokio::select! {
                        message = link.next() => message,
                        () = sleep_until(deadline) => return Answer::Failed("no answer in time".to_owned()),
                    };
                    *silence = Instant::now() + self.timing.replay_silence;
                    let answer =
                        message.map_or_else(|error| Answer::Failed(error.to_string()), |m| answer_of(&m));
                    self.batches += u64::from(matches!(answer, Answer::Batch(..)));
                    return answer;
                }
            }
        }
    }
}

/// The number and the payload of a message: its last two frames, whether a topic stands before them or not.
pub(crate) fn numbered(message: &Message) -> Option<(u64, Bytes)> {
    let [.., seq, payload] = &message[..] else { return None };
    let seq = u64::from_be_bytes(seq[..].try_into().ok()?);
    Some((seq, payload.clone()))
}

fn answer_of(message: &Message) -> Answer {
    match numbered(message) {
        Some((END, _)) => Answer::Ended,
        Some((seq, payload)) => Answer::Batch(seq, payload),
        None => Answer::Unreadable,
    }
}

#[cfg(test)]
mod tests;
