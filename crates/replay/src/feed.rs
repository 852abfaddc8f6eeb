//! The way of a worker's block events to the index: late, unevenly late, or lost.

use std::collections::VecDeque;
use std::time::Duration;

use tito_types::KvEvent;

use crate::random::Random;

#[cfg(test)]
mod tests;

/// How events travel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventPath {
    /// From the end of an engine's step until the index knows its block events.
    pub delay: Duration,
    /// Added to the delay of each step: anything from nothing to this, all equally likely. Events of one worker keep
    /// their order.
    pub jitter: Duration,
    /// Probability that the events of a step are lost for good, from 0 to 1. The gap is noticed with the worker's next
    /// events: what the index knew of it is forgotten, and it stays partial.
    pub loss: f64,
}

/// The events of one step.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Batch {
    /// Whether events before these were lost.
    pub(crate) after_gap: bool,
    pub(crate) events: Vec<KvEvent>,
}

/// What one worker has sent and the index has not heard: at most one batch per step and delay.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    batches: VecDeque<Batch>,
    /// When the last of them arrives.
    latest: Duration,
    gap: bool,
}

impl Feed {
    /// Sends the events of a step that is over. When they arrive, if they do.
    pub(crate) fn send(
        &mut self,
        events: Vec<KvEvent>,
        now: Duration,
        path: &EventPath,
        random: &mut Random,
    ) -> Option<Duration> {
        if path.loss > 0.0 && random.unit() < path.loss {
            self.gap = true;
            return None;
        }
        let jitter = if path.jitter.is_zero() { Duration::ZERO } else { path.jitter.mul_f64(random.unit()) };
        self.latest = self.latest.max(now + path.delay + jitter);
        self.batches.push_back(Batch { after_gap: std::mem::take(&mut self.gap), events });
        Some(self.latest)
    }

    /// The batch that arrives now.
    pub(crate) fn receive(&mut self) -> Option<Batch> {
        self.batches.pop_front()
    }
}
