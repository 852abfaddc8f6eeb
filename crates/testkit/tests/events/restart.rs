//! Engines that go away and come back, as they were or as others.

use tito_fleet::State;
use tito_mock::{Fault, FaultSpec, HashAlgorithm, KvEventsConfig, KvStyle, MockConfig};
use tito_test_support::port::ReservedPort;
use tito_test_support::wait::wait_until;

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

#[tokio::test]
async fn engines_that_name_blocks_differently_are_matched_alike() {
    let style = |seed: Option<&str>, hash_algorithm| KvStyle {
        hash_seed: seed.map(str::to_owned),
        hash_algorithm,
        ..KvStyle::default()
    };
    let configs = vec![
        config(style(None, HashAlgorithm::Sha256)),
        config(style(Some("7"), HashAlgorithm::Sha256)),
        config(style(None, HashAlgorithm::Sha256Cbor)),
    ];
    let mut bench = Bench::start("hash seeds".to_owned(), configs).await;
    traffic(&mut bench).await;
    all_complete(&mut bench).await;
    bench.restart(0, config(style(Some("8"), HashAlgorithm::Sha256Cbor))).await;
    traffic(&mut bench).await;
    all_complete(&mut bench).await;
}

#[tokio::test]
async fn an_engine_that_was_only_out_of_reach_is_known_again_from_its_history() {
    let mut bench = Bench::start("drain".to_owned(), vec![config(KvStyle::default())]).await;
    traffic(&mut bench).await;
    all_complete(&mut bench).await;
    bench.handle(0).add_fault(FaultSpec::new(Fault::Drain)).unwrap();
    wait_until("an engine out of reach", || bench.targets().is_empty()).await;
    assert_eq!(bench.cluster.blocks().stats().memberships, 0, "nothing is believed of it");
    bench.handle(0).clear_faults();
    wait_until("the engine back", || bench.targets().len() == 2).await;
    bench.until_complete().await;
    bench.check();
    all_complete(&mut bench).await;
}

#[tokio::test]
async fn an_engine_with_another_block_size_is_refused_and_its_blocks_are_not_known() {
    let one = || config(KvStyle::default());
    let mut bench = Bench::start("block size".to_owned(), vec![one()]).await;
    traffic(&mut bench).await;
    all_complete(&mut bench).await;
    bench.cluster.restart(0, MockConfig { block_size: 32, ..one() }).await.unwrap();
    let refused = || matches!(bench.cluster.seen(0).state, State::Refused(_));
    wait_until("a refused engine", refused).await;
    assert!(bench.cluster.seen(0).state.reason().unwrap().starts_with("identity changed"));
    assert!(bench.targets().is_empty());
    assert_eq!(bench.cluster.blocks().stats().memberships, 0);
    bench.restart(0, one()).await;
    bench.until_complete().await;
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
