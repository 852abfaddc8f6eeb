use tokio::time::{Instant, timeout};

use super::*;

const CONFIG: ShutdownConfig =
    ShutdownConfig { unready: Duration::from_secs(5), drain: Duration::from_secs(60) };

/// Runs the sequence beside `script`, on virtual time.
async fn with_sequence<F: Future>(script: impl FnOnce(Shutdown, Trigger) -> F) {
    let (sequence, shutdown, trigger) = CONFIG.build();
    tokio::select! {
        biased;
        _ = script(shutdown, trigger) => {}
        () = async { sequence.run().await; future::pending().await } => {}
    }
}

#[tokio::test(start_paused = true)]
async fn one_trigger_walks_through_the_stages_by_time() {
    with_sequence(|shutdown, trigger| async move {
        let started = Instant::now();
        assert_eq!(shutdown.stage(), Stage::Serving);
        trigger.fire("test");
        shutdown.reached(Stage::Unready).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        shutdown.reached(Stage::Draining).await;
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        shutdown.reached(Stage::Forced).await;
        assert_eq!(started.elapsed(), Duration::from_secs(65));
        assert_eq!(shutdown.stage(), Stage::Forced);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_further_trigger_skips_one_stage() {
    with_sequence(|shutdown, trigger| async move {
        let started = Instant::now();
        trigger.fire("first");
        shutdown.reached(Stage::Unready).await;
        trigger.fire("second");
        shutdown.reached(Stage::Draining).await;
        assert_eq!(shutdown.stage(), Stage::Draining);
        trigger.fire("third");
        shutdown.reached(Stage::Forced).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        for _ in 0..100 {
            trigger.fire("too many");
        }
        assert_eq!(shutdown.stage(), Stage::Forced);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_has_passed_counts_as_reached() {
    with_sequence(|shutdown, trigger| async move {
        trigger.fire("first");
        shutdown.reached(Stage::Draining).await;
        shutdown.reached(Stage::Serving).await;
        shutdown.reached(Stage::Unready).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_a_sequence_no_stage_is_invented() {
    let (sequence, shutdown, trigger) = CONFIG.build();
    drop(sequence);
    trigger.fire("nobody listens");
    assert!(timeout(Duration::from_secs(3600), shutdown.reached(Stage::Unready)).await.is_err());
}
