//! How long a step takes.

use std::time::Duration;

/// Attention pairs that [`Timing::prefill_attention`] is the time of.
const PAIRS: f64 = 1e6;
/// Context tokens that [`Timing::decode_context`] is the time of.
const CONTEXT_TOKENS: f64 = 1e3;

/// What a step computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepLoad {
    /// Tokens of prefill: of prompts, and of output that is computed again after a preemption.
    pub prefill_tokens: u32,
    /// Pairs of such a token and a token that it attends to: all before it in its sequence, cached or not, and itself.
    pub prefill_pairs: u64,
    /// Sequences that decode.
    pub decode_sequences: u32,
    /// Tokens that those sequences have before the new one.
    pub decode_context_tokens: u64,
}

impl StepLoad {
    /// Adds a chunk of `tokens` prefill tokens after `context_tokens` of the same sequence.
    pub fn prefill(&mut self, context_tokens: u32, tokens: u32) {
        let (context, new) = (u64::from(context_tokens), u64::from(tokens));
        self.prefill_tokens += tokens;
        self.prefill_pairs += new * context + new * (new + 1) / 2;
    }

    /// Adds a sequence that decodes after `context_tokens`.
    pub fn decode(&mut self, context_tokens: u32) {
        self.decode_sequences += 1;
        self.decode_context_tokens += u64::from(context_tokens);
    }
}

/// The cost of a step: a base, plus what it computes, divided by a speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Added to every step that schedules anything.
    pub step: Duration,
    /// Added per prefill token computed in the step.
    pub prefill_token: Duration,
    /// Added per million [`StepLoad::prefill_pairs`]: attention costs more the longer the context is, cached or not.
    pub prefill_attention: Duration,
    /// Added per sequence that decodes in the step.
    pub decode_sequence: Duration,
    /// Added per thousand [`StepLoad::decode_context_tokens`].
    pub decode_context: Duration,
    /// Divides the sum. 1 is real time, 2 twice as fast, 0 as fast as possible: steps of length zero.
    pub speed: f64,
}

impl Timing {
    /// Steps of length zero.
    pub const INSTANT: Self = Self {
        step: Duration::ZERO,
        prefill_token: Duration::ZERO,
        prefill_attention: Duration::ZERO,
        decode_sequence: Duration::ZERO,
        decode_context: Duration::ZERO,
        speed: 0.0,
    };

    /// Whether no step takes any time.
    pub fn is_instant(&self) -> bool {
        let Self { step, prefill_token, prefill_attention, decode_sequence, decode_context, speed } = self;
        let times = [step, prefill_token, prefill_attention, decode_sequence, decode_context];
        !(*speed > 0.0 && speed.is_finite()) || times.iter().all(|time| time.is_zero())
    }

    /// The length of a step. Bounded by a day, so that no input overflows.
    pub fn step_length(&self, load: &StepLoad) -> Duration {
        const LONGEST: f64 = 86_400.0;
        if self.is_instant() {
            return Duration::ZERO;
        }
        let seconds = self.step.as_secs_f64()
            + self.prefill_token.as_secs_f64() * f64::from(load.prefill_tokens)
            + self.prefill_attention.as_secs_f64() * load.prefill_pairs as f64 / PAIRS
            + self.decode_sequence.as_secs_f64() * f64::from(load.decode_sequences)
            + self.decode_context.as_secs_f64() * load.decode_context_tokens as f64 / CONTEXT_TOKENS;
        Duration::from_secs_f64((seconds / self.speed).clamp(0.0, LONGEST))
    }
}

#[cfg(test)]
mod tests;
