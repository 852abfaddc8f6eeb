//! A small seeded generator (SplitMix64), so that a seed means the same bytes in every release.

use std::f64::consts::TAU;

/// Draws after which a number of the gamma distribution is given up for its mean. Of twenty draws, one is rejected at
/// most, so it is never reached.
const GAMMA_TRIES_MAX: u32 = 64;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream `index` of a named purpose under one seed. Streams do not overlap in practice, and taking more
    /// numbers from one changes no other.
    pub(crate) fn new(seed: u64, purpose: Purpose, index: u64) -> Self {
        Self(mix(mix(mix(seed) ^ purpose as u64) ^ index))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is not zero. The bias is below 2⁻³² for the 32-bit bounds used here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in (0, 1], never zero, so that its logarithm is finite.
    pub(crate) fn positive_unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A number from the standard normal distribution (Box and Muller's transformation).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.positive_unit().ln()).sqrt();
        radius * (TAU * self.positive_unit()).cos()
    }

    /// A number from the gamma distribution of this shape, which is positive, and scale 1; its mean is the shape
    /// (Marsaglia and Tsang's method, by rejection).
    pub(crate) fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = self.positive_unit().powf(shape.recip());
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = (9.0 * d).sqrt().recip();
        for _ in 0..GAMMA_TRIES_MAX {
            let x = self.normal();
            let cube = (1.0 + c * x).powi(3);
            if cube > 0.0 && self.positive_unit().ln() < 0.5 * x * x + d - d * cube + d * cube.ln() {
                return d * cube;
            }
        }
        shape
    }
}

/// What a stream of random numbers is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// The shared prefix of a group.
    Prefix = 1,
    /// The part of a prompt after the shared prefix.
    Tail = 2,
    /// The marker that keeps requests apart.
    Marker = 3,
    /// Arrival times.
    Arrivals = 4,
    /// The length of a prompt.
    PromptLength = 5,
    /// The ids of the warm-up's prompts.
    Warmup = 6,
    /// The ids of the prompts of one run of a comparison.
    Run = 7,
    /// How many tokens to ask for.
    OutputLength = 8,
    /// The ids of one block of a trace.
    Block = 9,
    /// Turns of a session, their lengths and pauses.
    Session = 10,
    /// The new ids of a session's later turns.
    Turn = 11,
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
