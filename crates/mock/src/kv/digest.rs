//! The digests by which vLLM 0.32 names blocks: `H((parent, token ids, extra keys))`, chained.

use sha2::{Digest as _, Sha256};

use super::serial::{cbor, pickle};
use crate::config::HashAlgorithm;

/// The text whose digest stands before the first block unless a seed is set.
const DEFAULT_SEED: &str = "vllm-none-hash";

/// The digest of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) [u8; 32]);

impl Digest {
    /// The integer form in events: the last eight bytes, big-endian.
    pub(crate) fn name(&self) -> u64 {
        self.0[24..].iter().fold(0, |name, &byte| name << 8 | u64::from(byte))
    }
}

/// What besides its ids goes into a block's digest, in vLLM's order: adapter, media, salt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key<'a> {
    /// The adapter. Its path is hashed and never published.
    Lora { name: &'a str, path: &'a str },
    /// A media item that overlaps the block; its start minus the block's, in tokens.
    Media { identifier: &'a str, offset: i64 },
    /// The salt; only in the first block of a sequence.
    Salt(&'a str),
}

/// Computes digests.
#[derive(Debug)]
pub(crate) struct Digester {
    algorithm: HashAlgorithm,
    none: Digest,
    /// Serialized input, kept to be filled again.
    buffer: Vec<u8>,
}

impl Digester {
    /// `seed` is vLLM's `PYTHONHASHSEED`. Engines with different seeds name all blocks differently.
    pub(crate) fn new(algorithm: HashAlgorithm, seed: Option<&str>) -> Self {
        let mut buffer = Vec::new();
        let seed = seed.unwrap_or(DEFAULT_SEED);
        match algorithm {
            HashAlgorithm::Sha256 => pickle::text(seed, &mut buffer),
            HashAlgorithm::Sha256Cbor => cbor::text(seed, &mut buffer),
        }
        let none = sha256(&buffer);
        Self { algorithm, none, buffer }
    }

    /// The parent of every first block.
    pub(crate) fn none(&self) -> Digest {
        self.none
    }

    pub(crate) fn block(&mut self, parent: &Digest, ids: &[u32], keys: &[Key<'_>]) -> Digest {
        self.buffer.clear();
        match self.algorithm {
            HashAlgorithm::Sha256 => pickle::block(parent, ids, keys, &mut self.buffer),
            HashAlgorithm::Sha256Cbor => cbor::block(parent, ids, keys, &mut self.buffer),
        }
        sha256(&self.buffer)
    }
}

fn sha256(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}
