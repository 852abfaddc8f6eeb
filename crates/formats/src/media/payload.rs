use std::iter;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::Refusal;
use crate::object::string;

/// Largest payloads of one request together, in bytes (vLLM 0.32 takes as many).
pub(super) const PAYLOADS_BYTES_MAX: usize = 16 << 20;

/// What one map of `features` may still hold.
pub(super) struct Budget {
    map: &'static str,
    left_bytes: usize,
}

impl Budget {
    pub(super) fn new(map: &'static str) -> Self {
        Self { map, left_bytes: PAYLOADS_BYTES_MAX }
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.left_bytes = self.left_bytes.checked_sub(bytes).ok_or_else(|| {
            let message = format!("must hold at most {PAYLOADS_BYTES_MAX} bytes in all");
            Refusal::invalid(format!("features.{}", self.map), message)
        })?;
        Ok(())
    }
}

/// Decodes one payload: base64 of the standard alphabet, padded.
pub(super) fn read(json: &str, budget: &mut Budget, path: impl Fn() -> String) -> Result<Arc<[u8]>, Refusal> {
    let text = string(json, &path)?;
    let bytes = decoded_bytes(text.as_bytes());
    if bytes == 0 {
        return Err(Refusal::invalid(path(), "must not be empty"));
    }
    budget.take(bytes)?;
    let mut payload: Arc<[u8]> = iter::repeat_n(0, bytes).collect();
    let room = Arc::get_mut(&mut payload).expect("it was made here and has one owner");
    match STANDARD.decode_slice(text.as_bytes(), room) {
        Ok(written) if written == bytes => Ok(payload),
        Ok(_) | Err(_) => Err(Refusal::invalid(path(), "must be base64 of the standard alphabet, padded")),
    }
}

/// How many bytes valid base64 of this length and padding holds.
fn decoded_bytes(text: &[u8]) -> usize {
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    (text.len().div_ceil(4) * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests;
