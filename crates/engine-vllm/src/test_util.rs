//! Entries for tests that hold recorded or random bytes instead of an engine.

use prost::Message as _;
use tito_types::{Delta, EngineError, GenerateRequest};
use vllm_proto::GenerateResponse;

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
