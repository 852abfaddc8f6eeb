//! Which of several engines a request goes to.

use crate::fleet::pair;

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
    let held = serve.generate("held", 4, false).begin();
    first.wait_state("held", "queued").await;
    for _ in 0..5 {
        serve.assert_serves("passes").await;
    }
    assert_eq!(second.entries("passes").await.len(), 5);
    first.resume().await;
    held.reply().await;
}
