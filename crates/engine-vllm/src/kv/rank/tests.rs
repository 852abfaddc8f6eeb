mod publisher;

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::json;
use tito_engine::KvFeed;
use tito_test_support::port::ReservedPort;
use tokio::time::advance;

use self::publisher::{Layout, Publisher};
use super::*;
use crate::kv::batch::pack::pack;

/// Virtual time that passes with each turn of the runtime. The sockets are looked at in every turn, so whatever is on its
/// way arrives long before a limit is reached, however slow the machine is; a limit that must be reached is reached at once.
const TURN: Duration = Duration::from_millis(1);
/// Turns after which nothing comes any more.
const TURNS_MAX: u32 = 100_000;

/// Waits for what must come, one turn after the other.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..TURNS_MAX {
        tokio::select! {
            biased;
            done = &mut future => return done,
            () = advance(TURN) => {}
        }
    }
    panic!("never came: {what}");
}

fn timing() -> Timing {
    Timing {
        connect: Duration::from_secs(5),
        settle: Duration::from_millis(20),
        replay_silence: Duration::from_millis(300),
        replay: Duration::from_secs(10),
        reconnect: (Duration::from_millis(5), Duration::from_millis(20)),
        unsubscribed: Duration::from_millis(200),
    }
}

/// A batch that stores one block named after `name`.
fn stored(name: u64) -> Bytes {
    pack(&json!([1, [{"type": "BlockStored", "block_hashes": [name], "parent_block_hash": null,
        "token_ids": [1, 2], "block_size": 2, "lora_id": null, "medium": "GPU", "lora_name": null}], 0]))
    .into()
}

fn cleared() -> Bytes {
    pack(&json!([1, [{"type": "AllBlocksCleared"}], 0])).into()
}

fn feed(source: Source) -> KvFeed {
    crate::kv::feed(&WorkerId::new("w"), vec![source], &timing())
}

/// An engine that has published nothing, and a feed that knows it.
async fn followed() -> (Publisher, KvFeed) {
    let publisher = Publisher::start(Layout::Topic).await;
    let mut feed = feed(publisher.source());
    expect(&mut feed, &["complete"]).await;
    (publisher, feed)
}

/// The next news that is not about counters, in short.
async fn news(feed: &mut KvFeed) -> String {
    loop {
        let update = soon("news", feed.next()).await.expect("never ends");
        match update.news {
            KvNews::Counters(_) => {}
            KvNews::Events(events) => {
                let names = events.iter().map(|event| match event {
                    KvEvent::Stored(blocks) => format!("+{}", blocks.hashes[0].0),
                    KvEvent::Copied { hashes, .. } => format!("={}", hashes[0].0),
                    KvEvent::Removed { hashes, .. } => format!("-{}", hashes[0].0),
                    KvEvent::Cleared => "cleared".to_owned(),
                });
                return names.collect::<Vec<_>>().join(" ");
            }
            KvNews::Partial(why) => return format!("partial: {why}"),
            KvNews::Unproven => return "unproven".to_owned(),
            KvNews::Complete => return "complete".to_owned(),
            KvNews::MediaInexact(why) => return format!("media inexact: {why}"),
            KvNews::NotCompared(why) => return format!("not compared: {why}"),
        }
    }
}

/// News, one after the other.
#[track_caller]
fn expect<'a>(feed: &'a mut KvFeed, expected: &'a [&'a str]) -> impl Future<Output = ()> + 'a {
    let caller = std::panic::Location::caller();
    async move {
        for expected in expected {
            assert_eq!(news(feed).await, *expected, "asked at {caller}");
        }
    }
}

/// Reads until these counters are told.
async fn counted(feed: &mut KvFeed, what: impl Fn(&KvCounters) -> bool) -> KvCounters {
    loop {
        let update = soon("counters", feed.next()).await.expect("never ends");
        if let KvNews::Counters(counters) = update.news
            && what(&counters)
        {
            return counters;
        }
    }
}

/// Batches of the burst: well over what the sockets between the two can hold.
const BURST: u64 = 5_000;

#[tokio::test(start_paused = true)]
async fn a_burst_arrives_whole_and_in_order() {
    let (mut publisher, mut feed) = followed().await;
    let publishing = async {
        for name in 0..BURST {
            publisher.publish(stored(name)).await;
            tokio::task::yield_now().await;
        }
    };
    let reading = async {
        for name in 0..BURST {
            assert_eq!(news(&mut feed).await, format!("+{name}"));
        }
    };
    tokio::join!(publishing, reading);
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_replays_history_and_joins_the_live_batches() {
    for layout in [Layout::Topic, Layout::NoTopic] {
        let mut publisher = Publisher::start(layout).await;
        publisher.publish(stored(1)).await;
        publisher.publish(stored(2)).await;
        let mut feed = feed(publisher.source());
        expect(&mut feed, &["+1", "+2", "complete"]).await;
        publisher.publish(stored(3)).await;
        expect(&mut feed, &["+3"]).await;
        publisher.publish(cleared()).await;
        expect(&mut feed, &["cleared"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_filled_by_a_replay_and_nothing_is_applied_twice() {
    let (mut publisher, mut feed) = followed().await;
    publisher.publish(stored(1)).await;
    expect(&mut feed, &["+1"]).await;
    publisher.lose(stored(2)).await;
    publisher.lose(stored(3)).await;
    publisher.publish(stored(4)).await;
    publisher.repeat(1).await;
    publisher.publish(stored(5)).await;
    expect(&mut feed, &["unproven", "+2", "+3", "+4", "+5", "complete"]).await;
    publisher.publish(stored(6)).await;
    let counters = counted(&mut feed, |counters| counters.batches == 6).await;
    assert_eq!((counters.gaps, counters.replays, counters.restarts), (1, 2, 0), "{counters:?}");
    assert!(counters.duplicates >= 1 && counters.unreadable == 0, "{counters:?}");
}

#[tokio::test(start_paused = true)]
async fn history_that_the_buffer_forgot_is_partial_until_all_is_cleared() {
    let mut publisher = Publisher::start(Layout::Topic).await;
    for name in 0..4 {
        publisher.publish(stored(name)).await;
    }
    publisher.forget(2);
    let mut feed = feed(publisher.source());
    expect(&mut feed, &["partial: the engine's replay buffer begins at batch 2", "+2", "+3"]).await;
    publisher.publish(cleared()).await;
    expect(&mut feed, &["cleared", "complete"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_restarts_starts_the_rank_over() {
    let mut publisher = Publisher::start(Layout::Topic).await;
    publisher.publish(stored(1)).await;
    publisher.publish(stored(2)).await;
    let mut feed = feed(publisher.source());
    expect(&mut feed, &["+1", "+2", "complete"]).await;
    let mut publisher = publisher.restart().await;
    publisher.publish(stored(7)).await;
    publisher.publish(stored(8)).await;
    publisher.publish(stored(9)).await;
    let restarted = "partial: the engine's event publisher restarted";
    expect(&mut feed, &["unproven", restarted, "+7", "+8", "+9", "complete"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_costs_the_rank_its_history_and_never_the_feed() {
    let (mut publisher, mut feed) = followed().await;
    let logged = tempfile::NamedTempFile::new().unwrap();
    let writer = Arc::new(logged.reopen().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
    let _capturing = tracing::subscriber::set_default(subscriber);
    publisher.publish(stored(1)).await;
    publisher.publish(Bytes::from_static(b"\xc1garbage")).await;
    publisher.raw(&[b"kv", &[1, 2, 3], b"x"]).await;
    publisher.publish(stored(2)).await;
    expect(&mut feed, &["+1", "unproven", "partial: batch 1 could not be read", "+2"]).await;
    let counters = counted(&mut feed, |counters| counters.batches == 3).await;
    // The one that the engine keeps broken is read twice: live, and when it is asked for.
    assert_eq!(counters.unreadable, 3, "{counters:?}");
    let text = std::fs::read_to_string(logged.path()).unwrap();
    let told: Vec<&str> = text.lines().filter(|line| line.contains("cannot be read")).collect();
    let [line] = told[..] else { panic!("once, not {told:?}") };
    assert!(line.contains(" WARN ") && line.ends_with("worker=w rank=0"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn without_a_replay_endpoint_the_first_batch_tells_whether_history_is_whole() {
    let mut publisher = Publisher::start(Layout::Topic).await;
    let source = || Source { replay: None, ..publisher.source() };
    let (mut early, mut late) = (feed(source()), feed(source()));
    publisher.publish_until(stored(1), expect(&mut early, &["+1", "complete"])).await;
    let unknown = "partial: no replay was answered, so batches may be missing";
    publisher.publish_until(stored(2), expect(&mut late, &[unknown, "+2"])).await;
    expect(&mut early, &["+2"]).await;
    publisher.lose(stored(3)).await;
    publisher.publish(stored(4)).await;
    let missing = "partial: batches before 3 are missing and could not be replayed";
    expect(&mut early, &["unproven", missing, "+4"]).await;
    let counters = counted(&mut early, |counters| counters.gaps > 0).await;
    assert_eq!(counters.replays, 0, "nobody can be asked");
    publisher.publish(cleared()).await;
    expect(&mut early, &["cleared", "complete"]).await;
    publisher.raw(&[b"kv", &[1, 2, 3], b"what this was is not known"]).await;
    expect(&mut early, &["unproven", unknown]).await;
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_is_never_answered_is_given_up() {
    let mut publisher = Publisher::start(Layout::Silent).await;
    publisher.publish(stored(1)).await;
    let mut feed = feed(publisher.source());
    expect(&mut feed, &["partial: no replay was answered, so batches may be missing"]).await;
    publisher.publish(stored(2)).await;
    expect(&mut feed, &["+2"]).await;
    publisher.publish(cleared()).await;
    expect(&mut feed, &["cleared", "complete"]).await;
    publisher.lose(stored(3)).await;
    publisher.publish(stored(4)).await;
    let missing = "partial: batches before 4 are missing and could not be replayed";
    expect(&mut feed, &["unproven", missing, "+4"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_cannot_be_subscribed_to_is_not_believed_until_it_can() {
    let publisher = Publisher::start(Layout::Topic).await;
    let source = publisher.source();
    let gone = publisher.stop().await;
    let mut feed = feed(source);
    expect(&mut feed, &["partial: no subscription to the engine's KV events"]).await;
    let _back = gone.start().await;
    expect(&mut feed, &["complete"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_connects_finds_us_listening() {
    let ours = ReservedPort::any();
    let mut publisher = Publisher::start(Layout::Topic).await;
    let events = Endpoint::Listen { host: "127.0.0.1".to_owned(), port: ours.port() };
    let mut feed = feed(Source { events, ..publisher.source() });
    let connecting = publisher.connect(ours.port());
    let complete = expect(&mut feed, &["complete"]);
    tokio::join!(connecting, complete);
    publisher.publish(stored(1)).await;
    expect(&mut feed, &["+1"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_the_engine_bound_after_all_is_connected_to() {
    let mut publisher = Publisher::start(Layout::Topic).await;
    publisher.publish(stored(1)).await;
    let source = publisher.source();
    let Endpoint::Tcp { host, port } = source.events else { panic!("the publisher listens") };
    let mut feed = feed(Source { events: Endpoint::Listen { host, port }, ..source });
    expect(&mut feed, &["+1", "complete"]).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_feed_closes_its_sockets() {
    let (mut publisher, feed) = followed().await;
    drop(feed);
    publisher.left().await;
}
