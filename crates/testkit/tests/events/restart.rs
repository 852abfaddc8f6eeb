//! Engines that go away and come back, as they were or as others.

use tito_mock::{KvEventsConfig, KvStyle, MockConfig};
use tito_test_support::port::ReservedPort;

use crate::ask::Ask;
use crate::bench::{Bench, config};

fn prompts() -> impl Iterator<Item = Ask> {
    (0..8).map(|number| Ask { output: 20, ..Ask::text((0..60).map(move |index| index * 3 + number % 4)) })
}

/// The same prompts for every rank of both mocks.
async fn traffic(bench: &mut Bench) {
    for (mock, target) in bench.targets() {
        for ask in prompts() {
            bench.ask(mock, target.rank, &ask).await;
        }
    }
}

async fn all_complete(bench: &mut Bench) {
    bench.settle().await;
    bench.until_complete().await;
    let seen = bench.check();
    assert!(seen.values().all(|seen| seen.complete), "{seen:?}");
}

#[tokio::test]
async fn the_blocks_of_an_engine_go_with_it_and_nobody_elses() {
    let one = || config(KvStyle::default());
    let mut bench = Bench::start("restart".to_owned(), vec![one(), one()]).await;
    traffic(&mut bench).await;
    all_complete(&mut bench).await;
    let held = bench.target(1, 0).report().blocks;
    bench.restart(0, one()).await;
    bench.until_complete().await;
    assert_eq!(bench.target(0, 0).report().blocks, [0; 3], "a new process has nothing");
    assert_eq!(bench.target(1, 0).report().blocks, held);
    bench.check();
    traffic(&mut bench).await;
    all_complete(&mut bench).await;
}

/// The feed of the old process may find the new one behind its ports before anybody says that the old one is gone.
#[tokio::test]
async fn another_process_on_the_same_event_ports_starts_from_nothing() {
    let (events, replay) = (ReservedPort::any(), ReservedPort::any());
    let one = || {
        let config = MockConfig { data_parallel_size: 1, ..config(KvStyle::default()) };
        let events = KvEventsConfig {
            endpoint: format!("tcp://*:{}", events.port()),
            replay_endpoint: Some(format!("tcp://*:{}", replay.port())),
            ..config.kv_events.clone().unwrap()
        };
        MockConfig { kv_events: Some(events), ..config }
    };
    let mut bench = Bench::start("same ports".to_owned(), vec![one()]).await;
    for _ in 0..3 {
        traffic(&mut bench).await;
        all_complete(&mut bench).await;
        bench.restart(0, one()).await;
        bench.check();
    }
    traffic(&mut bench).await;
    all_complete(&mut bench).await;
}
