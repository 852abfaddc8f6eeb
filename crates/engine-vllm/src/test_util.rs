//! Entries for tests that hold recorded or random bytes instead of an engine.

use std::ops::Range;

use bytes::Bytes;
use prost::Message as _;
use tito_types::{Delta, EngineError, EngineLoad, GenerateRequest, KvEvent};
use vllm_proto::GenerateResponse;

use crate::kv::batch::{Batch, Groups};
use crate::kv::zmtp::{Role, scripted};
use crate::output::Reader;

/// Reads the messages of one call exactly as the adapter does. Bytes that are no message are a broken contract.
pub fn read_wire(request: &GenerateRequest, wire: &[&[u8]]) -> Result<Vec<Delta>, EngineError> {
    let mut reader = Reader::new(request);
    let messages = wire.iter().map(|bytes| {
        let message =
            GenerateResponse::decode(*bytes).map_err(|error| EngineError::Protocol(error.to_string()))?;
        reader.read(message)
    });
    messages.filter_map(Result::transpose).collect()
}

/// Reads one batch of KV events exactly as the feed of a rank that saw nothing before; `None` when it is no batch.
pub fn read_kv_batch(payload: &[u8]) -> Option<Vec<KvEvent>> {
    let batch = Batch::read(payload).ok()?;
    Some(Groups::default().admit(batch.events).0)
}

/// Reads what a ZeroMQ peer said, in pieces of so many bytes, as a subscriber or as who asks for a replay. `None` where the
/// peer was refused before its first message; else its messages up to the end or the first error, as lists of frames.
pub fn read_zmtp(said: &[u8], subscriber: bool, piece_bytes: usize) -> Option<Vec<Vec<Bytes>>> {
    scripted::read(said, if subscriber { Role::Subscriber } else { Role::Dealer }, piece_bytes)
}

/// Reads the metrics of an engine with these ranks exactly as the adapter does.
pub fn read_loads(text: &[u8], ranks: Range<u32>) -> Vec<EngineLoad> {
    crate::load::text::loads(text, ranks)
}

/// JSON as MessagePack, to write batches of KV events with; `{"$bin": [bytes]}` stands for a byte string. Panics on what is
/// longer than a test writes.
pub fn pack(value: &serde_json::Value) -> Vec<u8> {
    crate::kv::batch::pack::pack(value)
}
