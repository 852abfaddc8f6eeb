//! The feed of one rank: a thin shell that moves batches from sockets into the cursor and performs what it says.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use tito_kv_index::{Action, Cursor};
use tito_types::{KvCounters, KvEvent, KvNews, WorkerId};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use crate::kv::batch::{Batch, Groups};
use crate::kv::endpoint::Endpoint;
use crate::kv::replay::{Answer, Replay, numbered};
use crate::kv::sources::Source;
use crate::kv::subscribe::Subscriber;
use crate::kv::timing::Timing;
use crate::kv::zmtp::{Link, Message};

/// A decoded token takes this much more than it may on the wire; what is held while a replay runs is counted decoded.
const DECODED_BYTES_PER_BYTE: usize = 4;

type Body = Vec<(Option<u32>, KvEvent)>;

/// One rank's subscription and what is known through it.
pub(crate) struct Rank {
    worker: WorkerId,
    /// Global data-parallel rank.
    number: u32,
    timing: Timing,
    subscriber: Subscriber,
    replay_endpoint: Option<Endpoint>,
    link: Option<Link>,
    outage: Outage,
    /// Present since the first subscription.
    cursor: Option<Cursor<Body>>,
    replay: Option<Replay>,
    /// Whether something was said during that replay that could not be understood.
    again: bool,
    /// A question that nobody can answer, kept open until a first batch shows whether history begins there.
    unanswerable: Option<u64>,
    groups: Groups,
    /// News not handed out yet: what one message led to, so at most what the cursor holds.
    news: VecDeque<KvNews>,
    /// Events and messages that the cursor does not count.
    unreadable: u64,
    skipped: u64,
    /// Replays that were asked for: the cursor counts those that nobody could be asked for, too.
    replays: u64,
    told: KvCounters,
    once: Once,
}

/// What is said once per connection, and was.
#[derive(Default)]
struct Once {
    unreadable: bool,
    media_inexact: bool,
    not_compared: bool,
}

/// A time without a subscription.
struct Outage {
    /// When to try next.
    retry: Instant,
    /// The pause after that.
    pause: Duration,
    /// When what is known stops being believed; `None` once that was said.
    believed_until: Option<Instant>,
    /// Whether the log tells of it.
    logged: bool,
}

/// What a socket had to say.
enum Heard {
    Live(io::Result<Message>),
    Answer(Answer),
}

impl Rank {
    pub(crate) fn new(worker: WorkerId, source: Source, timing: Timing) -> Self {
        let now = Instant::now();
        Self {
            worker,
            number: source.rank,
            replay_endpoint: source.replay.clone(),
            subscriber: Subscriber::new(source, timing.connect),
            link: None,
            outage: Outage {
                retry: now,
                pause: timing.reconnect.0,
                believed_until: Some(now + timing.unsubscribed),
                logged: false,
            },
            timing,
            cursor: None,
            replay: None,
            again: false,
            unanswerable: None,
            groups: Groups::default(),
            news: VecDeque::new(),
            unreadable: 0,
            skipped: 0,
            replays: 0,
            told: KvCounters::default(),
            once: Once::default(),
        }
    }

    /// The next piece of news.
    pub(crate) async fn next(&mut self) -> KvNews {
        loop {
            if let Some(news) = self.news.pop_front() {
                return news;
            }
            self.step().await;
            self.count();
        }
    }

    async fn step(&mut self) {
        let Some(link) = &mut self.link else { return self.connect().await };
        let heard = tokio::select! {
            message = link.next() => Heard::Live(message),
            answer = answer(self.replay.as_mut()) => Heard::Answer(answer),
        };
        match heard {
            Heard::Live(Ok(message)) => self.live(&message),
            Heard::Live(Err(error)) => self.lost(&error),
            Heard::Answer(answer) => self.answered(answer),
        }
    }

    /// One try to subscribe, or the end of our patience.
    async fn connect(&mut self) {
        let (retry, believed_until) = (self.outage.retry, self.outage.believed_until);
        let subscribing = async {
            sleep_until(retry).await;
            self.subscriber.subscribe().await
        };
        let patience = async {
            match believed_until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let subscribed = tokio::select! {
            subscribed = subscribing => Some(subscribed),
            () = patience => None,
        };
        match subscribed {
            Some(Ok(link)) => {
                info!(worker = %self.worker, rank = self.number, "subscribed to KV events");
                self.link = Some(link);
                self.pause();
                self.subscribed();
            }
            Some(Err(error)) => {
                self.log_outage(&error);
                self.pause();
            }
            None => self.disbelieve(),
        }
    }

    /// When to try again if this fails as well; a subscription that says nothing does not count as a success.
    fn pause(&mut self) {
        self.outage.retry = Instant::now() + self.outage.pause;
        self.outage.pause = (self.outage.pause * 2).min(self.timing.reconnect.1);
    }

    fn subscribed(&mut self) {
        self.outage.logged = false;
        self.outage.believed_until = None;
        self.unanswerable = None;
        let actions = if let Some(cursor) = &mut self.cursor {
            cursor.resubscribed()
        } else {
            let (cursor, actions) = Cursor::start();
            self.cursor = Some(cursor);
            actions
        };
        self.perform(actions, true);
    }

    fn lost(&mut self, error: &io::Error) {
        self.link = None;
        self.replay = None;
        self.again = false;
        let actions = self.cursor.as_mut().map(Cursor::interrupted);
        self.perform(actions.unwrap_or_default(), false);
        self.outage.believed_until = Some(Instant::now() + self.timing.unsubscribed);
        self.log_outage(error);
    }

    fn log_outage(&mut self, error: &io::Error) {
        if !self.outage.logged {
            self.outage.logged = true;
            warn!(worker = %self.worker, rank = self.number, %error, "no subscription to KV events; trying on");
        }
    }

    /// The engine changed its blocks unheard for too long.
    fn disbelieve(&mut self) {
        self.outage.believed_until = None;
        let Some(cursor) = &mut self.cursor else {
            self.news.push_back(KvNews::Partial("no subscription to the engine's KV events".to_owned()));
            return;
        };
        let mut actions = Vec::new();
        for action in cursor.resubscribed() {
            match action {
                Action::Replay { ask, .. } => actions.extend(cursor.replay_failed(ask)),
                other => actions.push(other),
            }
        }
        self.perform(actions, false);
    }

    fn live(&mut self, message: &Message) {
        self.outage.pause = self.timing.reconnect.0;
        let Some((seq, payload)) = numbered(message) else {
            self.unreadable += 1;
            self.ask_again();
            return;
        };
        let batch = self.batch(seq, &payload);
        if batch.damaged && self.replay_endpoint.is_some() && self.ask_again() {
            // As good as lost: the engine still has it as it was.
            self.unreadable += 1;
            return;
        }
        let Some(cursor) = &mut self.cursor else { return };
        let mut actions = cursor.live(batch);
        if let Some(ask) = self.unanswerable.take() {
            actions.extend(cursor.replay_failed(ask));
        }
        self.perform(actions, false);
    }

    /// Something was said that could not be understood: asks for what was said since the last batch that was, at once or
    /// when the replay under way has ended. False where nobody can be asked: then history is not proven any more, or it is
    /// still open whether it ever was.
    fn ask_again(&mut self) -> bool {
        self.again = self.replay.is_some();
        if self.again || self.unanswerable.is_some() {
            return self.again;
        }
        let Some(cursor) = &mut self.cursor else { return false };
        let actions = cursor.resubscribed();
        self.perform(actions, false);
        self.replay.is_some()
    }

    fn answered(&mut self, answer: Answer) {
        let Some(Replay { ask, batches, .. }) = self.replay else { return };
        let actions = match answer {
            Answer::Batch(seq, payload) => {
                let batch = self.batch(seq, &payload);
                self.cursor.as_mut().map(|cursor| cursor.replayed(ask, batch))
            }
            Answer::Unreadable => {
                self.unreadable += 1;
                None
            }
            Answer::Ended => {
                self.replay = None;
                self.cursor.as_mut().map(|cursor| cursor.replay_ended(ask))
            }
            Answer::Failed(why) => {
                self.replay = None;
                warn!(worker = %self.worker, rank = self.number, why, batches, "replay of KV events broke off");
                // The first answer of a question may repeat what is known. Beyond it there was progress, so that
                // asking again from there comes to an end.
                let again = batches > 1;
                self.cursor
                    .as_mut()
                    .map(|cursor| if again { cursor.resubscribed() } else { cursor.replay_failed(ask) })
            }
        };
        self.perform(actions.unwrap_or_default(), false);
        if self.again && self.replay.is_none() {
            self.ask_again();
        }
    }

    /// A batch as the cursor wants it.
    fn batch(&mut self, seq: u64, payload: &Bytes) -> tito_kv_index::Batch<Body> {
        let mut digest = DefaultHasher::new();
        digest.write(payload);
        let (body, damaged, cleared) = match Batch::read(payload) {
            Ok(batch) => {
                // A damaged batch is counted by the cursor, for the event that damaged it.
                self.unreadable += batch.unreadable.saturating_sub(u64::from(batch.damaged));
                self.skipped += batch.skipped;
                if let Some(reason) = batch.media_inexact.filter(|_| !self.once.media_inexact) {
                    self.once.media_inexact = true;
                    self.news.push_back(KvNews::MediaInexact(reason.to_owned()));
                }
                if let Some(reason) = batch.not_compared.filter(|_| !self.once.not_compared) {
                    self.once.not_compared = true;
                    self.news.push_back(KvNews::NotCompared(reason.to_owned()));
                }
                let cleared = batch.cleared();
                (Some(batch.events), batch.damaged, cleared)
            }
            Err(_) => (None, true, false),
        };
        let bytes = payload.len().saturating_mul(DECODED_BYTES_PER_BYTE);
        tito_kv_index::Batch { seq, digest: digest.finish(), bytes, body, damaged, cleared }
    }

    /// Does what the cursor says. `subscribed` when it says it because of a new subscription.
    fn perform(&mut self, actions: Vec<Action<Body>>, subscribed: bool) {
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Apply(body) => {
                    let (events, left_out) = self.groups.admit(body);
                    self.skipped += left_out;
                    if !events.is_empty() {
                        self.news.push_back(KvNews::Events(events));
                    }
                }
                Action::Partial(doubt) => {
                    info!(worker = %self.worker, rank = self.number, %doubt, "KV index of the rank starts over");
                    self.groups = Groups::default();
                    self.news.push_back(KvNews::Partial(doubt.to_string()));
                }
                Action::Unproven => self.news.push_back(KvNews::Unproven),
                Action::Complete => self.news.push_back(KvNews::Complete),
                Action::Replay { ask, from, all } => match self.replay_endpoint.clone() {
                    Some(endpoint) => {
                        self.replays += 1;
                        let delay = if subscribed { self.timing.settle } else { Duration::ZERO };
                        self.replay = Some(Replay::new(ask, endpoint, from, delay, &self.timing));
                    }
                    None if subscribed && all => self.unanswerable = Some(ask),
                    None => {
                        let cursor = self.cursor.as_mut();
                        actions.extend(cursor.map(|cursor| cursor.replay_failed(ask)).unwrap_or_default());
                    }
                },
            }
        }
    }

    /// Tells the counters when they changed: once per message at most.
    fn count(&mut self) {
        let mut counters = self.cursor.as_ref().map(Cursor::counters).unwrap_or_default();
        counters.replays = self.replays;
        counters.unreadable += self.unreadable;
        counters.skipped += self.skipped;
        if counters.unreadable > 0 && !self.once.unreadable {
            self.once.unreadable = true;
            warn!(worker = %self.worker, rank = self.number,
                "KV events that cannot be read are dropped; from here on they are only counted");
        }
        if counters != self.told {
            self.told = counters;
            self.news.push_back(KvNews::Counters(counters));
        }
    }
}

async fn answer(replay: Option<&mut Replay>) -> Answer {
    match replay {
        Some(replay) => replay.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
