//! What the table needs of the server's answer. Members that it does not need may be missing or new.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub(super) workers: Vec<Worker>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Worker {
    pub(super) id: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) engine: Option<Engine>,
    pub(super) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Engine {
    pub(super) models: Vec<String>,
    #[serde(default)]
    pub(super) pixels: Option<String>,
    #[serde(default)]
    pub(super) kv_replay: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Target {
    pub(super) rank: u32,
    pub(super) load: Load,
    pub(super) others_unknown: Option<String>,
    pub(super) index: Index,
}

#[derive(Debug, Deserialize)]
pub(super) struct Load {
    pub(super) in_flight: u64,
    pub(super) prefill_tokens: u64,
    pub(super) decode_tokens: u64,
    #[serde(default)]
    pub(super) other_requests: Option<u64>,
    #[serde(default)]
    pub(super) other_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Index {
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) blocks: Blocks,
    pub(super) media_inexact: Option<String>,
    #[serde(default)]
    pub(super) not_compared: Option<String>,
    pub(super) counters: Counters,
}

#[derive(Debug, Deserialize)]
pub(super) struct Blocks {
    pub(super) gpu: u64,
    pub(super) cpu: u64,
    pub(super) storage: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Counters {
    pub(super) gaps: u64,
}

/// The error envelope.
#[derive(Debug, Deserialize)]
pub(super) struct Failed {
    pub(super) error: Message,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) message: String,
}
