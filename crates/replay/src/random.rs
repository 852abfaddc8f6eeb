//! Random numbers from a seed: SplitMix64.

use tito_engine_sim::{STEP, mix};

#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        let word = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        tito_engine_sim::unit(word)
    }
}
