//! A map for keys that are keyed hashes already. Looked up by key, never read in its own order: no order can leak.

use std::hash::{BuildHasherDefault, Hasher};

#[expect(
    clippy::disallowed_types,
    reason = "looked up by key, never read in its own order: no order can leak"
)]
pub(crate) type FastMap<V> = std::collections::HashMap<u64, V, BuildHasherDefault<Spread>>;

/// Spreads a word that may be a small number in tests and is a hash in use.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd1b5_4a32_d192_ed03;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}
