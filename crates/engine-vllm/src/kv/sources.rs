//! What an engine answers about its event sources, held against the ranks behind its address. Pure.

use std::collections::BTreeSet;
use std::ops::Range;

use vllm_proto::KvEventSource;

use crate::kv::endpoint::{Endpoint, Unusable};

/// Where the events of every local rank come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Sources {
    /// One per local rank, in rank order; empty when the engine publishes nothing we can read.
    pub ranks: Vec<Source>,
    /// Sources that were left out, for the log.
    pub skipped: Vec<String>,
}

/// Where the events of one rank come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Global rank.
    pub rank: u32,
    /// The publisher.
    pub events: Endpoint,
    /// Where missed batches are asked for again.
    pub replay: Option<Endpoint>,
    /// Prefix of the topics to take; empty takes all.
    pub topic: String,
}

/// Sources we cannot read are left out before anything else is checked; then every local rank needs exactly one, or
/// none has any. An error makes the engine unusable. `host` is where we reach the engine.
pub(crate) fn sources(reply: Vec<KvEventSource>, ranks: Range<u32>, host: &str) -> Result<Sources, String> {
    let mut found = Sources::default();
    let mut readable = Vec::new();
    for source in reply {
        match unsupported(&source, host) {
            Some(why) => found.skipped.push(format!("rank {}: {why}", rank_text(source.data_parallel_rank))),
            None => readable.push(source),
        }
    }
    let mut seen = BTreeSet::new();
    for source in readable {
        let source = checked(source, &ranks, host)?;
        if !seen.insert(source.rank) {
            return Err(format!("rank {} has two KV event sources", source.rank));
        }
        found.ranks.push(source);
    }
    if let Some(missing) = ranks.clone().find(|rank| !seen.is_empty() && !seen.contains(rank)) {
        return Err(format!("rank {missing} has no KV event source while others have one"));
    }
    found.ranks.sort_by_key(|source| source.rank);
    Ok(found)
}

/// Why this source is not for us, whatever else it says.
fn unsupported(source: &KvEventSource, host: &str) -> Option<String> {
    if source.transport != "zmq" {
        return Some(format!("transport {:?}", source.transport));
    }
    if source.encoding != "msgpack" {
        return Some(format!("encoding {:?}", source.encoding));
    }
    if source.schema_version > 1 {
        return Some(format!("schema version {}", source.schema_version));
    }
    match Endpoint::published(&source.endpoint, host) {
        Err(Unusable::Unsupported(what)) => Some(what),
        Err(Unusable::Malformed) | Ok(_) => None,
    }
}

fn checked(source: KvEventSource, ranks: &Range<u32>, host: &str) -> Result<Source, String> {
    // No `..`: a field added to the schema does not compile until someone decides about it.
    let KvEventSource {
        transport: _,
        endpoint,
        topic,
        replay_endpoint,
        data_parallel_rank,
        encoding: _,
        schema_version: _,
        buffer_steps: _, // what it means is learned from the first replay
        hwm: _,          // what is lost beyond it shows as a gap
        max_queue_size: _,
    } = source;
    let rank = data_parallel_rank.ok_or("a KV event source names no data-parallel rank")?;
    if !ranks.contains(&rank) {
        return Err(format!(
            "KV event source of rank {rank}, which is not in {}..{}",
            ranks.start, ranks.end
        ));
    }
    if endpoint.is_empty() {
        return Err(format!("KV event source of rank {rank} has no endpoint"));
    }
    let unusable = |_| format!("KV event source of rank {rank} has the endpoint {endpoint:?}");
    let events = Endpoint::published(&endpoint, host).map_err(unusable)?;
    let replay = match replay_endpoint.as_str() {
        "" => None,
        text => Some(
            Endpoint::bound(text, host)
                .map_err(|_| format!("KV event source of rank {rank} has the replay endpoint {text:?}"))?,
        ),
    };
    Ok(Source { rank, events, replay, topic })
}

fn rank_text(rank: Option<u32>) -> String {
    rank.map_or_else(|| "unknown".to_owned(), |rank| rank.to_string())
}

#[cfg(test)]
pub(crate) mod tests;
