use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, advance};

use super::{LoopLag, PERIOD, Probe};
use crate::pacer::Pacer;

/// A lag with its probe, waiting for its first turn.
async fn probed() -> (Arc<LoopLag>, Probe) {
    let lag = Arc::new(LoopLag::new());
    let probe = Probe::start(&lag, &Pacer::Runtime).unwrap();
    yield_now().await;
    (lag, probe)
}

/// Time passes, and everything that waited for it has its turn.
async fn turn(time: Duration) {
    advance(time).await;
    for _ in 0..3 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_turns_in_time_has_no_lag() {
    let (lag, _probe) = probed().await;
    for _ in 0..100 {
        turn(Duration::from_micros(1700)).await;
        assert!(lag.at(Instant::now()) < PERIOD, "{lag:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_after_a_stall_is_as_late_as_the_stall_was_long() {
    let (lag, _probe) = probed().await;
    let stalled = Instant::now() + Duration::from_millis(50);
    let (least, most) = (Duration::from_millis(47), Duration::from_millis(51));
    assert!((least..most).contains(&lag.at(stalled)), "the probe has not had its turn yet: {lag:?}");
    turn(Duration::from_millis(50)).await;
    assert!((least..most).contains(&lag.at(Instant::now())), "it has, in the same turn: {lag:?}");
    turn(3 * PERIOD).await;
    turn(PERIOD).await;
    assert!(lag.at(Instant::now()) < 2 * PERIOD, "the loop has caught up: {lag:?}");
}
