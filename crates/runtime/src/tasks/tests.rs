use std::future;
use std::time::Duration;

use anyhow::bail;
use tito_test_support::wait::within;
use tokio::sync::oneshot;

use super::*;
use crate::{Shutdown, ShutdownConfig, Stage, registry};

/// Tasks whose trigger moves a real sequence, which is one of them.
fn case() -> (Tasks, Shutdown) {
    let hour = Duration::from_secs(3600);
    let (sequence, shutdown, trigger) = ShutdownConfig { unready: hour, drain: hour }.build();
    let tasks = Tasks::new(trigger, &mut registry());
    tasks.spawn("sequence", OnError::Log, async {
        sequence.run().await;
        Ok(())
    });
    (tasks, shutdown)
}

fn boom() -> anyhow::Result<()> {
    panic!("boom")
}

#[tokio::test]
async fn a_task_that_must_not_fail_starts_the_shutdown() {
    let (tasks, shutdown) = case();
    tasks.spawn("vital", OnError::Stop, async { bail!("gone") });
    within("shutdown begins", shutdown.reached(Stage::Unready)).await;
    assert!(tasks.failed());
    assert_eq!(tasks.metrics.failures.get(), 1);
    tasks.stop().await;
}

#[tokio::test]
async fn a_panic_counts_as_a_failure_and_is_never_silent() {
    let (tasks, shutdown) = case();
    tasks.spawn("vital", OnError::Stop, async { boom() });
    within("shutdown begins", shutdown.reached(Stage::Unready)).await;
    assert_eq!(tasks.metrics.panics.get(), 1);
    let owned = tasks.spawn_owned("owned", async { boom() }).await;
    assert!(owned.expect_err("a panic").is_panic());
    assert_eq!(tasks.metrics.panics.get(), 2);
    let blocking = tasks.spawn_blocking("blocking", boom).await;
    assert!(blocking.expect_err("a panic").is_panic());
    assert_eq!(tasks.metrics.panics.get(), 3);
    tasks.stop().await;
}

#[tokio::test]
async fn a_failure_that_is_only_logged_leaves_the_process_serving() {
    let (tasks, shutdown) = case();
    tasks.spawn("optional", OnError::Log, async { bail!("gone") });
    tasks.spawn("optional", OnError::Log, async { boom() });
    tasks.stop().await;
    assert_eq!((tasks.metrics.failures.get(), tasks.metrics.panics.get()), (1, 1));
    assert!(!tasks.failed());
    assert_eq!(shutdown.stage(), Stage::Serving);
}

#[tokio::test]
async fn stopping_drops_long_lived_tasks_and_waits_for_owned_ones() {
    let (tasks, _) = case();
    let (held, dropped) = oneshot::channel::<()>();
    tasks.spawn("endless", OnError::Stop, async move {
        let _held = held;
        future::pending().await
    });
    let (finish, finished) = oneshot::channel::<()>();
    let owned = tasks.spawn_owned("owned", async move { finished.await.is_ok() });
    let stopping = tasks.stop();
    tokio::pin!(stopping);
    assert!(futures_util::poll!(&mut stopping).is_pending());
    within("the endless task is dropped", dropped).await.expect_err("nothing is ever sent");
    finish.send(()).unwrap();
    within("all tasks end", stopping).await;
    assert!(owned.await.unwrap());
    assert!(!tasks.failed());
}
