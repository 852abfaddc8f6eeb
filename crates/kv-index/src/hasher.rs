//! Block identity: a keyed, chained 64-bit hash that a request and an engine's event arrive at independently.
//!
//! A chain starts at a *root* (namespace: block size, adapter and its load generation, salt) and takes one step per
//! block, so that equal hashes at one position mean equal prefixes. Engines name blocks in their own ways; those
//! names never enter here.
//!
//! Sixteen tokens are eight 64-bit words. Six of them are summed up as products of keyed pairs in 128 bits, the last two
//! are added to the halves: for tokens chosen without the key, the result of two different pieces agrees with
//! probability about 2⁻⁶⁴. None of this depends on the parent, so the processor works on several pieces at once; only
//! one multiplication per piece waits for the one before. A factor of zero would swallow the other one: the keys are
//! such that only ids of 2³¹ and above, which no vocabulary has, can make one. The key keeps clients from constructing
//! collisions, which would misroute others' requests; it is no cryptographic promise.

mod prompt;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use tito_types::{BlockExtras, TokenId};

pub use prompt::{Prompt, cached_tokens_max};

/// Tokens summed up at a time; shorter rests are filled with zeros, which the root's block size keeps apart.
const PIECE_TOKENS: usize = 16;
/// 64-bit words of a piece.
const PIECE_WORDS: usize = PIECE_TOKENS / 2;

/// What a byte string is hashed as; equal bytes of two kinds share nothing.
#[derive(Clone, Copy)]
enum Kind {
    Root = 1,
    Extras = 2,
    Payload = 3,
}

/// Hashes blocks under one secret. Two hashers with one secret agree on everything.
#[derive(Clone)]
pub struct Hasher {
    words: [u64; PIECE_WORDS],
    start: u64,
    extras: u64,
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher(secret)")
    }
}

impl Hasher {
    /// A hasher under `secret`, which stays within the deployment.
    pub fn new(secret: u128) -> Self {
        let (low, high) = halves(secret);
        let key = |n: u64| scramble(low ^ scramble(high.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
        let mut words = [0; PIECE_WORDS];
        for (word, n) in words.iter_mut().zip(1..) {
            // At most 2⁶³ and never zero: the word that cancels it has its top bit set.
            *word = (key(n) >> 1) + 1;
        }
        Self { words, start: key(101), extras: key(102) }
    }

    /// Where the chain of a namespace starts. An adapter is its name and how often it was loaded; an empty
    /// adapter name or salt means none, as engines have it.
    pub fn root(&self, block_tokens: u32, adapter: Option<(&str, u64)>, salt: Option<&str>) -> u64 {
        let mut bytes = block_tokens.to_le_bytes().to_vec();
        let adapter = adapter.filter(|(name, _)| !name.is_empty());
        put_bytes(&mut bytes, adapter.map_or("", |(name, _)| name).as_bytes());
        bytes.extend(adapter.map_or(0, |(_, generation)| generation).to_le_bytes());
        put_bytes(&mut bytes, salt.unwrap_or("").as_bytes());
        self.bytes(Kind::Root, &bytes)
    }

    /// Appends the chain hash of every full block of `tokens` to `out`, continuing from `state` (a root or the hash of
    /// the block before), and returns the last. `block_tokens` of 0 has no blocks.
    pub fn extend(&self, state: u64, tokens: &[TokenId], block_tokens: usize, out: &mut Vec<u64>) -> u64 {
        let from = out.len();
        match block_tokens {
            0 => {}
            PIECE_TOKENS => out.extend(self.pieces(state, tokens)),
            _ => out.extend(self.blocks(state, tokens, block_tokens)),
        }
        out[from..].last().copied().unwrap_or(state)
    }

    /// The same as [`Hasher::extend`] gives, in one allocation.
    fn chain(&self, root: u64, tokens: &[TokenId], block_tokens: usize) -> Arc<[u64]> {
        match block_tokens {
            0 => Arc::default(),
            PIECE_TOKENS => self.pieces(root, tokens).collect(),
            _ => self.blocks(root, tokens, block_tokens).collect(),
        }
    }

    /// The chain hashes of blocks of one piece.
    fn pieces<'a>(&'a self, mut last: u64, tokens: &'a [TokenId]) -> impl Iterator<Item = u64> + 'a {
        // The closure owns its state: borrowed, it would be written to memory at every step.
        tokens.as_chunks().0.iter().map(move |piece| {
            last = self.step(last, piece);
            last
        })
    }

    /// The chain hashes of blocks of any other size.
    fn blocks<'a>(
        &'a self,
        mut last: u64,
        tokens: &'a [TokenId],
        block_tokens: usize,
    ) -> impl Iterator<Item = u64> + 'a {
        tokens.chunks_exact(block_tokens).map(move |block| {
            last = self.plain(last, block);
            last
        })
    }

    /// The chain hash of one block after `parent`; without extras the same as [`Hasher::extend`] gives.
    pub fn block(&self, parent: u64, tokens: &[TokenId], extras: &BlockExtras) -> u64 {
        let state = self.plain(parent, tokens);
        if extras.media.is_empty() && extras.opaque.is_empty() {
            return state;
        }
        let mut bytes = (extras.media.len() as u64).to_le_bytes().to_vec();
        for item in &extras.media {
            put_bytes(&mut bytes, item.identifier.as_bytes());
            bytes.extend(item.offset.to_le_bytes());
        }
        for key in &extras.opaque {
            put_bytes(&mut bytes, key);
        }
        link(state, self.bytes(Kind::Extras, &bytes), self.extras)
    }

    /// Keyed digest of any bytes, such as a client's name for its session.
    pub fn payload(&self, bytes: &[u8]) -> u64 {
        self.bytes(Kind::Payload, bytes)
    }

    fn plain(&self, parent: u64, block: &[TokenId]) -> u64 {
        let (pieces, rest) = block.as_chunks::<PIECE_TOKENS>();
        let state = pieces.iter().fold(parent, |state, piece| self.step(state, piece));
        if rest.is_empty() {
            return state;
        }
        let mut piece = [0; PIECE_TOKENS];
        piece[..rest.len()].copy_from_slice(rest);
        self.step(state, &piece)
    }

    #[inline]
    fn step(&self, state: u64, piece: &[TokenId; PIECE_TOKENS]) -> u64 {
        let word = |n: usize| {
            (u64::from(piece[2 * n]) | u64::from(piece[2 * n + 1]) << 32).wrapping_add(self.words[n])
        };
        let product = |n: usize| u128::from(word(n)) * u128::from(word(n + 1));
        let (low, high) = halves(product(0).wrapping_add(product(2)).wrapping_add(product(4)));
        // Ids are small, so the top bits of `high` are the key's alone: it goes where the state hides that, and the half
        // that varies in every bit becomes the other factor.
        link(state, high.wrapping_add(word(7)), low.wrapping_add(word(6)))
    }

    fn bytes(&self, kind: Kind, bytes: &[u8]) -> u64 {
        let mut state = link(self.start, kind as u64, self.extras.wrapping_add(bytes.len() as u64));
        for chunk in bytes.chunks(4 * PIECE_TOKENS) {
            let mut piece = [0; PIECE_TOKENS];
            for (token, four) in piece.iter_mut().zip(chunk.chunks(4)) {
                let mut le = [0; 4];
                le[..four.len()].copy_from_slice(four);
                *token = u32::from_le_bytes(le);
            }
            state = self.step(state, &piece);
        }
        state
    }
}

/// One step of a chain: both factors stay in the result, so that none of them being zero loses the other.
#[inline]
fn link(state: u64, mask: u64, factor: u64) -> u64 {
    let state = state ^ mask;
    let (low, high) = halves(u128::from(state) * u128::from(factor));
    low.wrapping_add(state ^ factor) ^ high
}

#[inline]
fn halves(wide: u128) -> (u64, u64) {
    (wide as u64, (wide >> 64) as u64)
}

/// A bijection that spreads every bit, for making keys.
fn scramble(word: u64) -> u64 {
    let word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let word = (word ^ (word >> 29)).wrapping_mul(0xa076_1d64_78bd_642f);
    word ^ (word >> 32)
}

/// Length first, so that no two lists of byte strings read the same.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}
