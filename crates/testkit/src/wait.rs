use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How long a state may take to come true before a test gives up on it.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Waits for a state, not for a notification, and panics with what never came true.
pub async fn wait_for<T>(rx: &mut watch::Receiver<T>, what: &str, ready: impl FnMut(&T) -> bool) {
    let Ok(seen) = timeout(WAIT_LIMIT, rx.wait_for(ready)).await else {
        panic!("never saw within {WAIT_LIMIT:?}: {what}");
    };
    assert!(seen.is_ok(), "whoever would have shown it is gone: {what}");
}

#[cfg(test)]
mod tests;
