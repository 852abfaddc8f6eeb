//! How KV events are spelled: vLLM 0.32's way, and the ways of older releases.

/// The shape of one event in a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EventEncoding {
    /// A map with the type first (vLLM 0.32).
    #[default]
    Map,
    /// An array: the type, then every field in order (vLLM up to 0.23).
    Array,
}

/// The frames of a replay's answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReplayLayout {
    /// Delimiter, topic, sequence number, batch (vLLM 0.32).
    #[default]
    Topic,
    /// Delimiter, sequence number, batch (older releases).
    NoTopic,
}

/// How blocks are hashed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// SHA-256 of a Python pickle, vLLM's default.
    #[default]
    Sha256,
    /// SHA-256 of canonical CBOR.
    Sha256Cbor,
}

/// Everything about KV events that is not in vLLM's `--kv-events-config`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KvStyle {
    /// The shape of events.
    pub encoding: EventEncoding,
    /// The shape of replay answers.
    pub replay: ReplayLayout,
    /// How blocks are hashed. vLLM's `--prefix-caching-hash-algo`.
    pub hash_algorithm: HashAlgorithm,
    /// Seed of the hashes: mocks with different seeds name every block differently. vLLM's `PYTHONHASHSEED`;
    /// absent is vLLM's constant.
    pub hash_seed: Option<String>,
    /// Whether blocks are named by all bytes of their digest instead of a 64-bit number. vLLM's
    /// `VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0`.
    pub whole_digests: bool,
}
