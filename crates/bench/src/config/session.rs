//! Multi-turn sessions: how many turns, how long, and the pauses between them.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{ConfigError, Lengths, PROMPT_TOKENS_MAX, Span};
use crate::rng::Rng;

/// Most turns of one session.
const TURNS_MAX: u32 = 100_000;

/// Conversations instead of single requests. The next turn's prompt is the last prompt, the ids that the server answered,
/// and new ids.
#[derive(Debug, Clone, Serialize)]
pub struct SessionConfig {
    /// Turns of a session, drawn evenly; 1 is a single request.
    pub turns: Span,
    /// New ids of every turn after the first, in tokens.
    pub turn_tokens: Lengths,
    /// From the end of a reply until the next turn is due.
    pub think_time: TimeSpan,
}

/// An inclusive range of times, drawn from evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan {
    /// Shortest.
    pub first: Duration,
    /// Longest.
    pub last: Duration,
}

impl TimeSpan {
    pub(crate) fn draw(self, rng: &mut Rng) -> Duration {
        let nanoseconds = self.last.saturating_sub(self.first).as_nanos();
        self.first + Duration::from_nanos(rng.below(u64::try_from(nanoseconds).unwrap_or(u64::MAX - 1) + 1))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first.as_secs_f64(), self.last.as_secs_f64());
        if first < last { write!(f, "{first} to {last} s") } else { write!(f, "{first} s") }
    }
}

/// Both ends in seconds.
impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [self.first.as_secs_f64(), self.last.as_secs_f64()].serialize(serializer)
    }
}

impl SessionConfig {
    /// What is wrong with it beside sessions that begin with so many tokens and are answered with so many.
    pub(super) fn check(&self, prompt_tokens: u32, output_tokens: u32) -> Vec<ConfigError> {
        let Self { turns, turn_tokens, think_time } = self;
        let mut errors: Vec<_> = turn_tokens.check("turn_tokens").into_iter().collect();
        if turns.first < 1 || turns.last > TURNS_MAX || turns.first > turns.last {
            errors.push(ConfigError::Turns { turns: *turns, max: TURNS_MAX });
        }
        if turn_tokens.min() < 1 {
            let given = f64::from(turn_tokens.min());
            let max = f64::from(PROMPT_TOKENS_MAX);
            errors.push(ConfigError::OutOfRange { field: "turn_tokens", given, min: 1.0, max });
        }
        if think_time.first > think_time.last {
            errors.push(ConfigError::EmptySpan { field: "think_time" });
        }
        let turn = u64::from(turn_tokens.max()) + u64::from(output_tokens);
        let tokens = u64::from(prompt_tokens) + u64::from(turns.last.saturating_sub(1)) * turn;
        if tokens > u64::from(PROMPT_TOKENS_MAX) {
            errors.push(ConfigError::SessionTooLong { tokens, max: PROMPT_TOKENS_MAX });
        }
        errors
    }
}

#[cfg(test)]
mod tests;
