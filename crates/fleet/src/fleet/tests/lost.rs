//! What can still be asked of a worker whose engine is lost.

use super::*;
use crate::ClearError;

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_lost_is_not_told_to_drop_its_caches() {
    let mut fleet = run(vec![("a", vec![Ok(identity("m", 8)), Err("gone")])]);
    fleet.wait_for("a=ready").await;
    fleet.cut.notify_one();
    fleet.wait_for("a=unreachable").await;
    let worker = Arc::clone(&fleet.snapshot.borrow().workers[0]);
    let cleared = worker.clear_cache(&fleet.blocks, || panic!("nothing is forgotten")).await;
    assert!(matches!(cleared, Err(ClearError::NotReady(_))), "{cleared:?}");
    assert!(worker.control.is_none());
    fleet.stop().await;
}
