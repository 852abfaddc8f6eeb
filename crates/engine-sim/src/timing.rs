//! How long a step takes.

use std::time::Duration;

/// The cost of a step: a base, plus prefill tokens, plus decoding sequences, divided by a speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Added to every step that schedules anything.
    pub step: Duration,
    /// Added per prompt token computed in the step.
    pub prefill_token: Duration,
    /// Added per sequence that decodes in the step.
    pub decode_sequence: Duration,
    /// Divides the sum. 1 is real time, 2 twice as fast, 0 as fast as possible: steps of length zero.
    pub speed: f64,
}

impl Timing {
    /// Steps of length zero.
    pub const INSTANT: Self = Self {
        step: Duration::ZERO,
        prefill_token: Duration::ZERO,
        decode_sequence: Duration::ZERO,
        speed: 0.0,
    };

    /// Whether no step takes any time.
    pub fn is_instant(&self) -> bool {
        !(self.speed > 0.0 && self.speed.is_finite())
            || (self.step + self.prefill_token + self.decode_sequence).is_zero()
    }

    /// The length of a step. Bounded by a day, so that no input overflows.
    pub fn step_length(&self, prefill_tokens: u32, decode_sequences: u32) -> Duration {
        const LONGEST: f64 = 86_400.0;
        if self.is_instant() {
            return Duration::ZERO;
        }
        let seconds = self.step.as_secs_f64()
            + self.prefill_token.as_secs_f64() * f64::from(prefill_tokens)
            + self.decode_sequence.as_secs_f64() * f64::from(decode_sequences);
        Duration::from_secs_f64((seconds / self.speed).clamp(0.0, LONGEST))
    }
}
