//! Random numbers from a seed: SplitMix64.

#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(ODD);
        (scramble(self.0) >> 11) as f64 / (1u64 << 53) as f64
    }
}

pub(crate) const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64-bit words in which every input bit reaches every output bit.
pub(crate) const fn mix(word: u64) -> u64 {
    scramble(word.wrapping_add(ODD))
}

const fn scramble(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
