//! The one hash of this crate: small, fast, and the same in every build and on every platform.

/// The step of SplitMix64: odd, so that its multiples are all different.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64-bit words in which every input bit reaches every output bit.
pub const fn mix(word: u64) -> u64 {
    let mut word = word.wrapping_add(STEP);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Extends the hash of a sequence by one word; order matters.
pub const fn fold(state: u64, word: u64) -> u64 {
    mix(state.rotate_left(23) ^ word.wrapping_mul(STEP))
}

/// The hash of a byte string, its length included.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut state = mix(bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = fold(state, u64::from_le_bytes(word));
    }
    state
}

/// A number in `[0, 1)` made of the upper 53 bits.
pub fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}
