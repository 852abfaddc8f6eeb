//! Which of several engines a request goes to.

use crate::fleet::pair;
use crate::harness::{Asked, wait_for};

#[tokio::test]
async fn requests_spread_by_what_is_in_flight() {
    let (one, other, serve) = pair(&[]).await;
    one.pause().await;
    other.pause().await;
    let mut asked = Vec::new();
    for count in 1..=8 {
        asked.push(Asked::new(serve.generate("r", 4, count % 2 == 0)));
        wait_for(&format!("{count} requests at the engines"), async || {
            let found = (one.entries("r").await.len(), other.entries("r").await.len());
            (found.0 + found.1 == count).then_some(found)
        })
        .await;
        let found = (one.entries("r").await.len(), other.entries("r").await.len());
        assert!(found.0.abs_diff(found.1) <= 1, "{found:?}");
    }
    one.resume().await;
    other.resume().await;
    for asked in asked {
        assert_eq!(asked.reply().await.tokens().len(), 4);
    }
}

#[tokio::test]
async fn a_busy_engine_is_passed_over_and_equal_ones_take_turns() {
    let (one, other, serve) = pair(&[]).await;
    let (first, second) =
        if one.grpc.to_string() < other.grpc.to_string() { (one, other) } else { (other, one) };
    for turn in 1..=2 {
        serve.assert_serves("turn").await;
        let seen = (first.entries("turn").await.len(), second.entries("turn").await.len());
        assert_eq!(seen, (turn, turn - 1), "equal engines in the order of their names");
        serve.assert_serves("turn").await;
    }
    first.pause().await;
    let held = Asked::new(serve.generate("held", 4, false));
    first.wait_state("held", "queued").await;
    for _ in 0..5 {
        serve.assert_serves("passes").await;
    }
    assert_eq!(second.entries("passes").await.len(), 5);
    first.resume().await;
    held.reply().await;
}
