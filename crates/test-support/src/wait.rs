//! Waiting for a state, with a deadline and a message that says what never came.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};

/// Longest wait for anything that must come. Generous: a loaded machine is slow, and only failures wait so long.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Between two looks at a state that does not report its changes.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits for a future that must come.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(WAIT_LIMIT, future).await.unwrap_or_else(|_| panic!("never saw within {WAIT_LIMIT:?}: {what}"))
}

/// Looks until `ready` is true. On a paused clock the time moves on between two looks.
pub async fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let mut looks = looks();
    let looking = async {
        while !ready() {
            looks.tick().await;
        }
    };
    within(what, looking).await;
}

/// Looks until the state is there, and returns it.
pub async fn wait_for<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    wait_within(WAIT_LIMIT, what, look).await
}

/// Looks until the state is there, at most for `limit`. A look that began within the limit counts, however long it takes.
async fn wait_within<T>(limit: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    let mut looks = looks();
    loop {
        looks.tick().await;
        let asked = Instant::now();
        let Ok(seen) = timeout(WAIT_LIMIT, look()).await else { panic!("no answer when asked for: {what}") };
        if let Some(seen) = seen {
            return seen;
        }
        assert!(asked - began <= limit, "never saw within {limit:?}: {what}");
    }
}

fn looks() -> Interval {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

/// Waits until a watched value is as `ready` wants it, and panics when its sender is gone before.
pub async fn wait_watch<T>(rx: &mut watch::Receiver<T>, what: &str, ready: impl FnMut(&T) -> bool) {
    let seen = within(what, rx.wait_for(ready)).await;
    assert!(seen.is_ok(), "the sender is gone before: {what}");
}

#[cfg(test)]
mod tests;
