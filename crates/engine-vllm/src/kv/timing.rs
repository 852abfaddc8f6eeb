//! How long the feed waits for what.

use std::time::Duration;

/// The waits of one feed.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    /// Connecting, greeting, asking: each.
    pub connect: Duration,
    /// Between a subscription and the first question: a publisher heeds a subscription a moment after it
    /// was made, and what it published before that must be in the replay.
    pub settle: Duration,
    /// A replay without a further answer. vLLM 0.32 looks for questions every 0.1 s; an answer that it had no room for
    /// is dropped, the end marker as well.
    pub replay_silence: Duration,
    /// A whole replay.
    pub replay: Duration,
    /// First and longest pause before a subscription is tried again; each is twice the one before.
    pub reconnect: (Duration, Duration),
    /// Without a subscription for this long, what is known of a rank is no longer believed.
    pub unsubscribed: Duration,
}

impl Timing {
    /// What a deployment uses; `connect` is the limit of the gRPC side.
    pub(crate) fn new(connect: Duration) -> Self {
        Self {
            connect,
            settle: Duration::from_millis(250),
            replay_silence: Duration::from_secs(5),
            replay: Duration::from_secs(120),
            reconnect: (Duration::from_millis(50), Duration::from_secs(5)),
            unsubscribed: Duration::from_secs(10),
        }
    }
}
