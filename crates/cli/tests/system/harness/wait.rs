use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Longest wait for anything that must come. Generous: a loaded machine is slow, and only failures wait so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// From a client's leaving to the end of its request at the engine.
pub(crate) const ABORT_LIMIT: Duration = Duration::from_secs(1);
/// Between two looks at a state that another process holds.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits for a future that must come.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("never saw: {what}"))
}

/// Looks until the state is there, and returns it.
pub(crate) async fn wait_for<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, look).await
}

/// Looks until the state is there, at most for `limit`.
pub(crate) async fn wait_within<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let began = Instant::now();
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let asked = Instant::now();
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(asked - began <= limit, "never saw within {limit:?}: {what}");
    }
}
