//! `--kv-events-config`: parsed, resolved per rank, and reported by discovery.

use serde::{Deserialize, Serialize};

/// vLLM's KV event settings (0.32), with its defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KvEventsConfig {
    /// Whether the engine makes events at all.
    pub enable_kv_cache_events: bool,
    /// `zmq`, `null`, or absent: `zmq` when enabled and `null` otherwise.
    pub publisher: Option<String>,
    /// Where rank 0 publishes; rank r adds r to a TCP port.
    pub endpoint: String,
    /// Where rank 0 answers replay requests.
    pub replay_endpoint: Option<String>,
    /// Batches kept for replay.
    pub buffer_steps: u32,
    /// Messages the socket queues per subscriber.
    pub hwm: u32,
    /// Batches that wait for the publisher.
    pub max_queue_size: u32,
    /// Topic of every message.
    pub topic: String,
}

impl Default for KvEventsConfig {
    fn default() -> Self {
        Self {
            enable_kv_cache_events: false,
            publisher: None,
            endpoint: "tcp://*:5557".to_owned(),
            replay_endpoint: None,
            buffer_steps: 10_000,
            hwm: 100_000,
            max_queue_size: 100_000,
            topic: String::new(),
        }
    }
}

impl KvEventsConfig {
    /// Parses the JSON object of the flag.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        // Through a map: a struct of defaults would also be read from an empty list.
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json)?;
        serde_json::from_value(object.into())
    }

    /// The settings as rank `rank` reports them: publisher decided, ports offset.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Self {
        let default = if self.enable_kv_cache_events { "zmq" } else { "null" };
        Self {
            publisher: Some(self.publisher.clone().unwrap_or_else(|| default.to_owned())),
            endpoint: offset_port(&self.endpoint, rank),
            replay_endpoint: self.replay_endpoint.as_deref().map(|endpoint| offset_port(endpoint, rank)),
            ..self.clone()
        }
    }

    /// Whether discovery lists it.
    pub fn is_published(&self) -> bool {
        self.enable_kv_cache_events && self.publisher.as_deref().is_none_or(|publisher| publisher == "zmq")
    }
}

/// Adds a rank to the port of a TCP endpoint. Port 0 stays: the system chooses.
fn offset_port(endpoint: &str, rank: u32) -> String {
    if let Some(name) = endpoint.strip_prefix("inproc://") {
        return if rank == 0 { endpoint.to_owned() } else { format!("inproc://{name}_dp{rank}") };
    }
    let shifted = endpoint.rsplit_once(':').and_then(|(host, port)| {
        let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
        let port = port.checked_add(u16::try_from(rank).ok()?)?;
        Some(format!("{host}:{port}"))
    });
    shifted.unwrap_or_else(|| endpoint.to_owned())
}
