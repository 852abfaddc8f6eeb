use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How long a state may take to come true before a test gives up on it.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// How often a state is looked at that does not tell of its changes.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits for a state, not for a notification, and panics with what never came true.
pub async fn wait_for<T>(rx: &mut watch::Receiver<T>, what: &str, ready: impl FnMut(&T) -> bool) {
    let Ok(seen) = timeout(WAIT_LIMIT, rx.wait_for(ready)).await else {
        panic!("never saw within {WAIT_LIMIT:?}: {what}");
    };
    assert!(seen.is_ok(), "whoever would have shown it is gone: {what}");
}

/// Waits for a state of which nobody tells when it changes, and panics with what never came true.
pub async fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let looking = async {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        while !ready() {
            looks.tick().await;
        }
    };
    assert!(timeout(WAIT_LIMIT, looking).await.is_ok(), "never saw within {WAIT_LIMIT:?}: {what}");
}

#[cfg(test)]
mod tests;
