//! What a connection's end takes with it, and what the next one brings.

use tito_types::{EngineHash, KvEvent, KvNews, StoredBlocks, Tier};

use super::*;

fn adapter(name: &str) -> Adapter {
    Adapter { name: name.to_owned(), id: 1, source: format!("org/{name}") }
}

#[tokio::test(start_paused = true)]
async fn an_engines_adapters_are_known_from_the_first_moment_of_each_connection() {
    let mut fleet =
        run(vec![("a", vec![Err("down"), Ok(identity("m", 8)), Err("gone"), Ok(identity("m", 8))])]);
    fleet.wait_for("a=unreachable").await;
    fleet.adapters.send_replace(vec![adapter("one")]);
    fleet.wait_for("a=ready").await;
    assert_eq!(fleet.adapters(), ["a: one"]);
    let takes_orders = |fleet: &Running| fleet.snapshot.borrow().workers[0].control.is_some();
    assert!(takes_orders(&fleet));
    fleet.cut.notify_one();
    fleet.wait_for("a=unreachable").await;
    assert!(!takes_orders(&fleet), "nobody is there to take them");
    fleet.adapters.send_replace(vec![adapter("two"), adapter("three")]);
    fleet.wait_for("a=ready").await;
    assert_eq!(fleet.adapters(), ["a: two", "a: three"]);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_connections_end_takes_the_blocks_of_its_targets_along() {
    let mut fleet = run(vec![("a", vec![Ok(identity("m", 8))]), ("b", vec![Ok(identity("m", 8))])]);
    fleet.wait_for("a=ready b=ready").await;
    let held = |fleet: &Running| fleet.blocks.stats().memberships;
    for worker in 0..2 {
        let target = Arc::clone(&fleet.snapshot.borrow().workers[worker].targets[0]);
        let stored = StoredBlocks {
            parent: None,
            hashes: vec![EngineHash(1), EngineHash(2)],
            tokens: (0..32).collect(),
            block_tokens: 16,
            tier: Tier::Gpu,
            adapter: None,
            adapter_id: None,
            salt: None,
            extras: Vec::new(),
        };
        target.apply(&fleet.blocks, KvNews::Events(vec![KvEvent::Stored(stored)]));
    }
    assert_eq!(held(&fleet), 4);
    // Whichever of the two it is.
    fleet.cut.notify_one();
    let lost = fleet.snapshot.wait_for(|snapshot| {
        snapshot.workers.iter().any(|worker| matches!(worker.state, State::Unreachable(_)))
    });
    assert!(lost.await.is_ok());
    for _ in 0..1_000 {
        if held(&fleet) == 2 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(held(&fleet), 2, "the other keeps its own");
    fleet.stop().await;
}
